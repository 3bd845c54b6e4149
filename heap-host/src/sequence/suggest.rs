//! The nearest known name to one that is not known.

/// Longer names get no suggestion: the time goes with the square of the length.
const LONGEST: usize = 128;

/// The candidate nearest to `name` by edits (insertions, deletions,
/// substitutions, swaps), if it takes at most one for three characters.
/// Ties go to the first in alphabetical order, so that the result is
/// independent of the order of the candidates.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    if length > LONGEST {
        return None;
    }
    let limit = (length / 3).max(1);
    candidates
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

/// The end of a sentence about an unknown name.
pub(crate) fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!(" (did you mean {name:?}?)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["velo_hits", "velo_tracks", "ut_hits"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("velo_hit").as_deref(), Some("velo_hits"));
        assert_eq!(near("veol_tracks").as_deref(), Some("velo_tracks"));
        assert_eq!(near("muon"), None);
        assert_eq!(near(""), None);
        assert_eq!(nearest("x", ["z", "y"].into_iter()).as_deref(), Some("y"));
    }
}

#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds, with the options it needs.
#
#   fuzz/run-all.sh SECONDS
#
# New inputs go to fuzz/target/corpus, crashes to fuzz/artifacts; what is
# checked in under fuzz/corpus is only read. Fails if there is no target, or if
# one fails; the others run nevertheless.
set -euo pipefail

seconds=${1:-}
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: $0 SECONDS (a whole number of 1 or more, for each target)" >&2
    exit 2
fi
cd "$(dirname "$0")"
toolchain=${FUZZ_TOOLCHAIN:-nightly}

targets=$(cargo "+$toolchain" fuzz list --fuzz-dir .)
if [[ -z $targets ]]; then
    echo "cargo fuzz list names no target" >&2
    exit 1
fi

failed=()
for target in $targets; do
    if [[ ! -d corpus/$target ]]; then
        echo "corpus/$target is missing; give the target some inputs to start from" >&2
        failed+=("$target")
        continue
    fi
    sanitizer=address
    # 0 leaves the length to the size of the corpus; programs get slow with it.
    length=0
    dictionary=()
    case $target in
    # Lanes are coroutines, and AddressSanitizer is not told of their switches.
    heap_lockstep) sanitizer=none length=2400 ;;
    heap_single) length=4800 ;;
    plan) length=1212 ;;
    plan_csv) dictionary=(-dict=dict/csv.dict) ;;
    sequence_json) dictionary=(-dict=dict/json.dict) ;;
    esac
    echo "== $target: $seconds s, sanitizer $sanitizer"
    mkdir -p "target/corpus/$target"
    cargo "+$toolchain" fuzz run --fuzz-dir . --sanitizer "$sanitizer" "$target" \
        "target/corpus/$target" "corpus/$target" -- \
        -max_total_time="$seconds" -max_len="$length" -timeout=60 \
        -print_final_stats=1 -verbosity=1 "${dictionary[@]}" || failed+=("$target")
done

if ((${#failed[@]})); then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi

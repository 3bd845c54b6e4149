//! Reading.

use std::io::{Chain, Read};
use std::path::Path;

use ::csv::{ByteRecord, Position, Reader, ReaderBuilder};

use super::super::instance::{Buffer, Instance, InstanceError};
use super::{Column, CsvError, CsvFault};
use crate::file::{self, FileError};

/// Reads the instance in the file at `path`.
///
/// # Errors
///
/// [`CsvError`], the first fault in the file.
pub fn read_instance(path: &Path) -> Result<Instance, CsvError> {
    let (file, text) = load(path)?;
    parse_instance(&text, &file)
}

/// Reads the plan in the file at `path`: the instance, and an offset for each
/// of its buffers. The offsets are not verified, see
/// [`verify`](super::super::verify::verify).
///
/// # Errors
///
/// [`CsvError`], the first fault in the file.
pub fn read_plan(path: &Path) -> Result<(Instance, Vec<u64>), CsvError> {
    let (file, text) = load(path)?;
    parse_plan(&text, &file)
}

/// Reads an instance from the bytes of a file; `file` names it in errors.
///
/// # Errors
///
/// [`CsvError`], the first fault in the text.
pub fn parse_instance(text: &[u8], file: &str) -> Result<Instance, CsvError> {
    parse(text, file, false).map(|(instance, _)| instance)
}

/// Reads a plan from the bytes of a file; `file` names it in errors.
///
/// # Errors
///
/// [`CsvError`], the first fault in the text.
pub fn parse_plan(text: &[u8], file: &str) -> Result<(Instance, Vec<u64>), CsvError> {
    parse(text, file, true)
}

fn load(path: &Path) -> Result<(String, Vec<u8>), CsvError> {
    let text = file::read(path).map_err(|fault| CsvError::whole(path, fault))?;
    Ok((path.display().to_string(), text))
}

fn parse(text: &[u8], file: &str, of_plan: bool) -> Result<(Instance, Vec<u64>), CsvError> {
    let refuse = |(line, fault): (u64, CsvFault)| CsvError {
        file: file.into(),
        line: Some(line),
        fault,
    };
    let mut rows = Rows::new(text);
    let header = rows
        .next()
        .map_err(refuse)?
        .ok_or_else(|| refuse((1, CsvFault::NoHeader)))?;
    let header = Header::new(&header.fields, of_plan).map_err(|f| refuse((header.line, f)))?;
    let (mut lines, mut buffers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(row) = rows.next().map_err(refuse)? {
        let (buffer, offset) = header.row(&row.fields).map_err(|f| refuse((row.line, f)))?;
        lines.push(row.line);
        buffers.push(buffer);
        offsets.push(offset);
    }
    let instance = Instance::new(buffers).map_err(|error| {
        let line = |index: usize| lines[index];
        refuse((line(error.index()), instance_fault(error, line)))
    })?;
    Ok((instance, offsets))
}

/// Duplicates are told by their lines; the other faults speak for themselves.
fn instance_fault(error: InstanceError, line: impl Fn(usize) -> u64) -> CsvFault {
    match error {
        InstanceError::DuplicateName { name, first, .. } => CsvFault::DuplicateId {
            buffer: name,
            first: line(first),
        },
        other => other.into(),
    }
}

/// A row that is not blank.
struct Row {
    /// On which line it starts, from 1.
    line: u64,
    fields: Vec<String>,
}

/// Comes after the text. The reader accepts a quote that is never closed;
/// then this is swallowed.
const SENTINEL: &str = "\n<end of text>\n";

/// Splits a text into rows and leaves out the blank ones.
struct Rows<'a> {
    reader: Reader<Chain<&'a [u8], &'static [u8]>>,
    text: &'a [u8],
    lines: Lines<'a>,
    record: ByteRecord,
}

impl<'a> Rows<'a> {
    fn new(text: &'a [u8]) -> Self {
        Rows {
            reader: ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .from_reader(text.chain(SENTINEL.as_bytes())),
            text,
            lines: Lines {
                text,
                at: 0,
                line: 1,
            },
            record: ByteRecord::new(),
        }
    }

    /// The next row, `None` at the end, or a fault and its line.
    fn next(&mut self) -> Result<Option<Row>, (u64, CsvFault)> {
        loop {
            // Reading from memory cannot fail, and uneven rows are allowed.
            let more = self.reader.read_byte_record(&mut self.record);
            let more = more.map_err(|error| (self.lines.line, io_fault(error)))?;
            let line = self
                .lines
                .of(self.record.position().map_or(0, Position::byte));
            // A row of the text takes at most the sentinel's first line end.
            let past_end = self.reader.position().byte() > self.text.len() as u64 + 1;
            if !more || (past_end && self.record == vec![SENTINEL.trim()]) {
                return Ok(None);
            }
            if past_end {
                return Err((line, CsvFault::OpenQuote));
            }
            let field = |field| std::str::from_utf8(field).map(String::from);
            let fields = self.record.iter().map(field).collect::<Result<Vec<_>, _>>();
            let fields = fields.map_err(|_| (line, CsvFault::NotUtf8))?;
            let blank = fields.len() == 1 && fields[0].trim().is_empty();
            if !blank {
                return Ok(Some(Row { line, fields }));
            }
        }
    }
}

fn io_fault(error: ::csv::Error) -> CsvFault {
    FileError::Io(error.into()).into()
}

/// Finds lines from positions. The reader's own line numbers point before the
/// blank lines that it skips, and do not count a lone CR.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    /// The line of the byte at `at`.
    line: u64,
}

impl Lines<'_> {
    /// The line of the first byte at `position` or later that is no line end.
    /// Positions asked for never go down.
    fn of(&mut self, position: u64) -> u64 {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        while let Some(&byte) = self.text.get(self.at) {
            let ends_line = matches!(byte, b'\n' | b'\r');
            if self.at >= position && !ends_line {
                break;
            }
            let crlf = byte == b'\r' && self.text.get(self.at + 1) == Some(&b'\n');
            if ends_line && !crlf {
                self.line += 1;
            }
            self.at += 1;
        }
        self.line
    }
}

/// Which field holds which column.
struct Header {
    columns: usize,
    id: usize,
    lower: usize,
    upper: usize,
    size: usize,
    alignment: Option<usize>,
    offset: Option<usize>,
    of_plan: bool,
}

impl Header {
    fn new(fields: &[String], of_plan: bool) -> Result<Header, CsvFault> {
        let is_known = |name: &String| Column::from_name(name.trim()).is_some();
        if !fields.iter().any(is_known) {
            return Err(CsvFault::NoHeader);
        }
        let mut places = [None; Column::ALL.len()];
        for (place, name) in fields.iter().enumerate() {
            let name = name.trim();
            let column =
                Column::from_name(name).ok_or_else(|| CsvFault::UnknownColumn(name.into()))?;
            if places[column as usize].replace(place).is_some() {
                return Err(CsvFault::RepeatedColumn(column));
            }
        }
        let all = if of_plan {
            "id, lower, upper, size and offset"
        } else {
            "id, lower, upper and size"
        };
        let required =
            |column: Column| places[column as usize].ok_or(CsvFault::MissingColumn(column, all));
        for column in Column::ALL
            .into_iter()
            .filter(|column| column.is_required(of_plan))
        {
            required(column)?;
        }
        Ok(Header {
            columns: fields.len(),
            id: required(Column::Id)?,
            lower: required(Column::Lower)?,
            upper: required(Column::Upper)?,
            size: required(Column::Size)?,
            alignment: places[Column::Alignment as usize],
            offset: places[Column::Offset as usize],
            of_plan,
        })
    }

    /// The buffer of a row and its offset, 0 where it has none.
    fn row(&self, fields: &[String]) -> Result<(Buffer, u64), CsvFault> {
        if fields.len() != self.columns {
            let named = fields.get(self.id).filter(|id| !id.is_empty());
            let row = named.map_or("the row".into(), |id| format!("the row of buffer '{id}'"));
            let (found, expected) = (fields.len(), self.columns);
            return Err(CsvFault::FieldCount {
                row,
                found,
                expected,
            });
        }
        let name = &fields[self.id];
        let number = |column, place: usize| number(name, column, &fields[place]);
        let filled = |place: &usize| !fields[*place].trim().is_empty();
        let alignment = match self.alignment.filter(filled) {
            Some(place) => number(Column::Alignment, place)?,
            None => 1,
        };
        let (lower, upper) = (
            number(Column::Lower, self.lower)?,
            number(Column::Upper, self.upper)?,
        );
        let size = number(Column::Size, self.size)?;
        let buffer = Buffer::new(name.clone(), lower, upper, size).aligned_to(alignment);
        let offset = match self.offset.filter(|place| self.of_plan || filled(place)) {
            Some(place) => number(Column::Offset, place)?,
            None => 0,
        };
        check_end(buffer, offset)
    }
}

fn check_end(buffer: Buffer, offset: u64) -> Result<(Buffer, u64), CsvFault> {
    let (size, most) = (buffer.size, u64::MAX - buffer.size);
    if offset > most {
        return Err(CsvFault::EndOverflow {
            buffer: buffer.name,
            offset,
            size,
            most,
        });
    }
    Ok((buffer, offset))
}

fn number(buffer: &str, column: Column, field: &str) -> Result<u64, CsvFault> {
    let value = field.trim();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let reason = if value.is_empty() {
        "is no number; a whole number of 0 or more is needed"
    } else if value.strip_prefix('-').is_some_and(digits) {
        "is negative; a whole number of 0 or more is needed"
    } else if !digits(value) {
        "is no whole number; only the digits 0 to 9 are allowed"
    } else {
        match value.parse() {
            Ok(number) => return Ok(number),
            Err(_) => "is too large; at most 18446744073709551615 (2^64 - 1) is allowed",
        }
    };
    Err(CsvFault::Number {
        buffer: buffer.into(),
        column,
        value: value.into(),
        reason,
    })
}

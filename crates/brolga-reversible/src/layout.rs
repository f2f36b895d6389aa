//! Layout of places: where parts of a place lie in memory.
//!
//! **Question.** How many bytes does a place have, and how far after its beginning does a field or
//! an element lie?
//!
//! **Answer.** As C lays them out: fields in order, each at a multiple of its alignment. A complex
//! number is two doubles. A stack is a count of 64 bits, and its cells after it. [`Layouts`] has
//! the records of a file, [`Scalar`] is what a place without parts holds. For callers, which
//! allocate places, there are [`File::bytes_of`], with the lengths that parameters say, and
//! [`File::words_of`], which says of each four bytes what they are.
//!
//! **Errors.** Types that are not there or are there twice, records without fields, types that are
//! too large, and lengths that are not fixed within another type.
//!
//! **Invariant.** A type of fixed size has at most 2³⁰ bytes, a record at most 1024 numbers outside
//! of arrays: for each there is code.
//!
//! **Cost.** A record is laid out once, when the file is read. [`File::words_of`] has an entry for
//! each four bytes.

use std::collections::HashMap;

use crate::ast::{File, Len, RecordType, Type};
use crate::error::{ErrorKind, RevError};

/// What an expression, or a place without parts, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    F64,
    F32,
    Complex,
    I64,
    I32,
    Q43,
    Log,
    Bool,
}

impl Scalar {
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        Some(match ty {
            Type::F64 => Self::F64,
            Type::F32 => Self::F32,
            Type::Complex => Self::Complex,
            Type::I64 => Self::I64,
            Type::I32 => Self::I32,
            Type::Q43 => Self::Q43,
            Type::Log => Self::Log,
            Type::Array(..) | Type::Stack(..) | Type::Record(_) => return None,
        })
    }

    pub(crate) fn is_int(self) -> bool {
        matches!(self, Self::I64 | Self::I32)
    }

    /// Whether a place of it has a cotangent.
    pub(crate) fn is_active(self) -> bool {
        !matches!(self, Self::I64 | Self::I32 | Self::Bool)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Complex => "complex",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::Q43 => "q43",
            Self::Log => "log",
            Self::Bool => "a condition",
        }
    }
}

impl File {
    /// How many bytes a place of a type has, with lengths as the parameters say; none if a length
    /// is negative, or there is no such type.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let pairs = Type::Array(Box::new(Type::Complex), Len::Param("n".to_owned()));
    /// assert_eq!(File::default().bytes_of(&pairs, |_| Some(3)), Some(3 * 16));
    /// assert_eq!(File::default().bytes_of(&pairs, |_| Some(-1)), None);
    /// ```
    pub fn bytes_of(&self, ty: &Type, length: impl Fn(&str) -> Option<i64>) -> Option<u64> {
        let layouts = Layouts::new(self).ok()?;
        let (of, n, head) = match ty {
            Type::Array(of, Len::Param(n)) => (of, n, 0),
            Type::Stack(of, Len::Param(n)) => (of, n, 8),
            fixed => return Some(layouts.size(fixed).ok()?.0.into()),
        };
        let n = u64::try_from(length(n)?).ok()?;
        n.checked_mul(layouts.size(of).ok()?.0.into())?.checked_add(head)
    }

    /// What each four bytes of a place are, in order; none as of [`File::bytes_of`].
    ///
    /// ```
    /// # use brolga_reversible::PlaceWord;
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let words = File::default().words_of(&Type::F64, |_| None);
    /// assert_eq!(words, Some(vec![PlaceWord::F64, PlaceWord::Rest]));
    /// ```
    pub fn words_of(&self, ty: &Type, length: impl Fn(&str) -> Option<i64>) -> Option<Vec<PlaceWord>> {
        let layouts = Layouts::new(self).ok()?;
        let bytes = usize::try_from(self.bytes_of(ty, &length)?).ok()?;
        let mut words = vec![PlaceWord::Rest; bytes.div_ceil(4)];
        layouts.mark(ty, &length, &mut words)?;
        Some(words)
    }

    /// Whether some number of a place of a type has a cotangent: all but integers do.
    ///
    /// ```
    /// # use brolga_reversible::ast::*;
    /// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
    /// let file = File::default();
    /// assert!(file.has_cotangents(&Type::F64) && !file.has_cotangents(&Type::I64));
    /// ```
    pub fn has_cotangents(&self, ty: &Type) -> bool {
        Layouts::new(self).is_ok_and(|layouts| layouts.is_active(ty))
    }
}

/// What four bytes of a place are.
///
/// ```
/// # use brolga_reversible::PlaceWord;
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// assert_eq!(File::default().words_of(&Type::I32, |_| None), Some(vec![PlaceWord::I32]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceWord {
    /// The first half of a double.
    F64,
    /// The first half of a fixed-point number.
    Q43,
    /// A single.
    F32,
    /// The first half of an integer of 64 bits.
    I64,
    /// An integer of 32 bits.
    I32,
    /// The other half of a number, or nothing.
    Rest,
}

/// Sizes of types, and offsets of fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layouts {
    records: HashMap<String, Layout>,
}

#[derive(Clone, Debug)]
struct Layout {
    fields: Vec<(String, Type, u32)>,
    size: u32,
    align: u32,
    /// Numbers outside of arrays.
    numbers: u32,
}

const TYPES: &str = "there are f64, f32, complex, i64, i32, q43 and log, and records that stand in front of it";

/// Most bytes of a type whose size is fixed.
const MOST: u64 = 1 << 30;
/// Most numbers of a record outside of arrays: for each there is code.
const MOST_NUMBERS: u32 = 1 << 10;

impl Layouts {
    /// The layouts of a file's records.
    pub(crate) fn new(file: &File) -> Result<Self, Vec<RevError>> {
        let (mut this, mut errors) = (Self::default(), Vec::new());
        for r in &file.records {
            match this.record(r) {
                Ok(layout) => {
                    this.records.insert(r.name.clone(), layout);
                }
                Err(e) => errors.push(e),
            }
        }
        if errors.is_empty() { Ok(this) } else { Err(errors) }
    }

    fn record(&self, r: &RecordType) -> Result<Layout, RevError> {
        let wrong = |kind, message: String| RevError::new(kind, r.at, message);
        if ["f64", "f32", "complex", "i64", "i32", "q43", "log", "stack"].contains(&&r.name[..]) {
            return Err(wrong(ErrorKind::Name, format!("`{}` is a type that there is", r.name)));
        }
        if self.records.contains_key(&r.name) {
            return Err(wrong(ErrorKind::Name, format!("record `{}` is defined twice", r.name)));
        }
        let mut layout = Layout { fields: vec![], size: 0, align: 1, numbers: 0 };
        for (name, ty) in &r.fields {
            if layout.fields.iter().any(|f| f.0 == *name) {
                return Err(wrong(ErrorKind::Name, format!("field `{name}` of `{}` is there twice", r.name)));
            }
            let (size, align) = self.size(ty).map_err(|m| wrong(ErrorKind::Type, format!("field `{name}`: {m}")))?;
            let at = layout.size.next_multiple_of(align);
            layout.fields.push((name.clone(), ty.clone(), at));
            layout.numbers = layout.numbers.saturating_add(self.numbers(ty));
            layout.size = match at.checked_add(size) {
                Some(all) if u64::from(all) <= MOST => all,
                _ => return Err(wrong(ErrorKind::Type, format!("`{}` has more than {MOST} bytes", r.name))),
            };
            layout.align = layout.align.max(align);
        }
        if layout.numbers > MOST_NUMBERS {
            let message = format!("`{}` has more than {MOST_NUMBERS} numbers that are not in arrays", r.name);
            return Err(wrong(ErrorKind::Type, message).help("put those that are alike into an array"));
        }
        if layout.fields.is_empty() {
            return Err(wrong(ErrorKind::Type, format!("record `{}` has no field", r.name)));
        }
        layout.size = layout.size.next_multiple_of(layout.align);
        Ok(layout)
    }

    /// How many statements what is done to each number of a place takes.
    fn numbers(&self, ty: &Type) -> u32 {
        match ty {
            Type::Array(of, _) | Type::Stack(of, _) => self.numbers(of),
            Type::Record(name) => self.records.get(name).map_or(0, |r| r.numbers),
            _ => 1,
        }
    }

    /// Bytes and alignment of a type whose size is fixed.
    pub(crate) fn size(&self, ty: &Type) -> Result<(u32, u32), String> {
        Ok(match ty {
            Type::F32 | Type::I32 => (4, 4),
            Type::F64 | Type::I64 | Type::Q43 | Type::Log => (8, 8),
            Type::Complex => (16, 8),
            Type::Array(of, Len::Fixed(n)) => {
                let (size, align) = self.size(of)?;
                (sum(0, size, *n)?, align)
            }
            Type::Stack(of, Len::Fixed(n)) => (sum(8, self.size(of)?.0, *n)?.next_multiple_of(8), 8),
            Type::Array(_, Len::Param(n)) | Type::Stack(_, Len::Param(n)) => {
                return Err(format!(
                    "its length `{n}` is not fixed, which only that of a whole parameter or place may be"
                ));
            }
            Type::Record(name) => {
                let r = self.records.get(name).ok_or_else(|| format!("there is no type `{name}`: {TYPES}"))?;
                (r.size, r.align)
            }
        })
    }

    /// Say of each word of a place what it is.
    fn mark(&self, ty: &Type, length: &dyn Fn(&str) -> Option<i64>, words: &mut [PlaceWord]) -> Option<()> {
        let (of, n, head) = match ty {
            Type::Array(of, n) => (of, n, 0),
            Type::Stack(of, n) => (of, n, 2),
            Type::Record(name) => {
                for (_, ty, at) in self.fields(name) {
                    self.mark(ty, length, words.get_mut(*at as usize / 4..)?)?;
                }
                return Some(());
            }
            scalar => {
                let (first, every) = match Scalar::of(scalar)? {
                    Scalar::F32 => (PlaceWord::F32, 1),
                    Scalar::I64 => (PlaceWord::I64, 1),
                    Scalar::I32 | Scalar::Bool => (PlaceWord::I32, 1),
                    Scalar::Q43 => (PlaceWord::Q43, 1),
                    Scalar::Complex => (PlaceWord::F64, 2),
                    Scalar::F64 | Scalar::Log => (PlaceWord::F64, 1),
                };
                (0..every).try_for_each(|k| words.get_mut(2 * k).map(|w| *w = first))?;
                return Some(());
            }
        };
        if head > 0 {
            *words.first_mut()? = PlaceWord::I64;
        }
        let n = match n {
            Len::Fixed(n) => i64::from(*n),
            Len::Param(n) => length(n)?,
        };
        let size = self.size(of).ok()?.0 as usize / 4;
        for k in 0..usize::try_from(n).ok()? {
            self.mark(of, length, words.get_mut(head + k * size..)?)?;
        }
        Some(())
    }

    /// A field of a record: its type, and how many bytes it lies after the beginning.
    pub(crate) fn field(&self, record: &str, field: &str) -> Option<(&Type, u32)> {
        let found = self.records.get(record)?.fields.iter().find(|f| f.0 == field)?;
        Some((&found.1, found.2))
    }

    /// Fields of a record.
    pub(crate) fn fields(&self, record: &str) -> &[(String, Type, u32)] {
        self.records.get(record).map_or(&[], |r| &r.fields)
    }

    /// Whether some number in it has a cotangent.
    pub(crate) fn is_active(&self, ty: &Type) -> bool {
        match ty {
            Type::Array(of, _) | Type::Stack(of, _) => self.is_active(of),
            Type::Record(r) => self.fields(r).iter().any(|f| self.is_active(&f.1)),
            scalar => Scalar::of(scalar).is_some_and(Scalar::is_active),
        }
    }
}

fn sum(head: u32, size: u32, n: u32) -> Result<u32, String> {
    let all = u64::from(head) + u64::from(size) * u64::from(n);
    u32::try_from(all).ok().filter(|_| all <= MOST).ok_or_else(|| format!("{all} bytes are too many"))
}

//! Compressed Jacobians and Hessians: fewer products where it is known which entries are zero.
//!
//! **Question.** A caller knows the sparsity pattern of a matrix. By how few products can its
//! entries be found?
//!
//! **Answer.** Columns that share no row may be asked for by one product, along the sum of their
//! units: each row then has the entry of one of them. So a banded Jacobian takes as many products
//! as the band is wide, whatever its length. Which columns go together is a colouring of a graph:
//!
//! - for Jacobians, neighbours are columns with a row in common (distance two in the graph of rows
//!   and columns); the colouring is greedy, columns of many entries first
//!   ([`Pattern::column_colours`]);
//! - for Hessians, a *star colouring* of the graph of the pattern ([`Star`]): no path of four has
//!   two colours. Then of each pair of equal entries at least one stands alone in its row and
//!   colour.
//!
//! **Errors.** A pattern that lacks an entry would give wrong numbers. So one product more, along a
//! fixed direction of no structure, is compared with that of the matrix that was found.
//!
//! **Cost.** One product for each colour, and one to compare. A colouring of columns looks at each
//! pair of entries of a row. One for a Hessian looks at each path of two edges of the pattern, and
//! where its last two nodes have colours at each edge that goes on.
//!
//! **Source.** A. H. Gebremedhin, F. Manne, A. Pothen: What color is your Jacobian? SIAM Review 47
//! (2005), algorithms 3.1 and 4.1.

use super::dense::{Sweep, WIDTH};
use crate::Error;

/// Which entries of a matrix may be other than zero.
///
/// ```
/// use brolga::drivers::{Pattern, Star};
///
/// let tridiagonal = Pattern::banded(4, 1, 1);
/// assert_eq!((tridiagonal.rows(), tridiagonal.columns(), tridiagonal.row(0)), (4, 4, &[0, 1][..]));
/// assert_eq!(tridiagonal.transposed(), tridiagonal);
/// // Columns 0 and 3 share no row, so one product serves both.
/// let colours = tridiagonal.column_colours();
/// assert!(colours[0] == colours[3] && colours[0] != colours[1]);
/// let entries = [vec![2.0, 1.0]]; // one row, of what is in the pattern
/// assert_eq!(Pattern::new(3, [vec![2, 0]])?.dense(&entries), [[2.0, 0.0, 1.0]]);
///
/// let star = Star::new(&tridiagonal)?;
/// assert_eq!((star.pattern(), star.colours().len()), (&tridiagonal, 4));
/// assert_eq!(star.products(), 4); // three colours, and one to compare
/// # Ok::<(), brolga::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    columns: usize,
    /// Sorted columns, for each row.
    rows: Vec<Vec<usize>>,
}

/// The entries of a pattern, for each row one for each of its columns.
pub type Entries = Vec<Vec<f64>>;

impl Pattern {
    /// A pattern with these columns in each row.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert_eq!(Pattern::new(3, [vec![2, 0, 2]])?.row(0), [0, 2]);
    /// assert!(Pattern::new(3, [vec![3]]).is_err());
    /// # Ok::<(), brolga::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if a column is not below `columns`.
    pub fn new(columns: usize, rows: impl IntoIterator<Item = Vec<usize>>) -> Result<Self, Error> {
        let mut all = Vec::new();
        for (i, mut row) in rows.into_iter().enumerate() {
            row.sort_unstable();
            row.dedup();
            if let Some(j) = row.last().filter(|j| **j >= columns) {
                let message = format!("row {i} of the pattern has column {j}, but there are {columns}, counted from 0");
                return Err(Error::Usage(message));
            }
            all.push(row);
        }
        Ok(Self { columns, rows: all })
    }

    /// All entries within `below` of the diagonal to the left and `above` to the right.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// let below = Pattern::banded(3, 1, 0);
    /// assert_eq!([below.row(0), below.row(1), below.row(2)], [&[0][..], &[0, 1], &[1, 2]]);
    /// ```
    pub fn banded(n: usize, below: usize, above: usize) -> Self {
        let row = |i: usize| (i.saturating_sub(below)..n.min(i + above + 1)).collect();
        Self { columns: n, rows: (0..n).map(row).collect() }
    }

    /// How many rows there are.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert_eq!(Pattern::new(3, [vec![2, 0]])?.rows(), 1);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// How many columns there are.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert_eq!(Pattern::new(3, [vec![2, 0]])?.columns(), 3);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The columns of a row, in order.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert_eq!(Pattern::banded(4, 1, 1).row(2), [1, 2, 3]);
    /// ```
    pub fn row(&self, row: usize) -> &[usize] {
        &self.rows[row]
    }

    /// The pattern of the transposed matrix.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// let row = Pattern::new(2, [vec![0, 1]])?;
    /// assert_eq!(row.transposed(), Pattern::new(1, [vec![0], vec![0]])?);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut rows = vec![Vec::new(); self.columns];
        for (i, row) in self.rows.iter().enumerate() {
            row.iter().for_each(|&j| rows[j].push(i));
        }
        Self { columns: self.rows.len(), rows }
    }

    /// A matrix with these entries, zeros included.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// let diagonal = Pattern::banded(2, 0, 0);
    /// assert_eq!(diagonal.dense(&[vec![3.0], vec![5.0]]), [[3.0, 0.0], [0.0, 5.0]]);
    /// ```
    pub fn dense(&self, entries: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let row = |(columns, entries): (&Vec<usize>, &Vec<f64>)| {
            let mut row = vec![0.0; self.columns];
            columns.iter().zip(entries).for_each(|(&j, &x)| row[j] = x);
            row
        };
        self.rows.iter().zip(entries).map(row).collect()
    }

    /// A colour for each column, such that no two columns of one colour share a row.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert_eq!(Pattern::banded(3, 0, 0).column_colours(), [0, 0, 0]);
    /// assert_eq!(Pattern::new(3, [vec![0, 1, 2]])?.column_colours(), [0, 1, 2]);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    pub fn column_colours(&self) -> Vec<usize> {
        let by_column = self.transposed();
        let mut order: Vec<usize> = (0..self.columns).collect();
        order.sort_by_key(|&j| std::cmp::Reverse(by_column.rows[j].len()));
        let mut colours = Colours::new(self.columns);
        for j in order {
            for &i in &by_column.rows[j] {
                self.rows[i].iter().for_each(|&k| colours.forbid_that_of(k, j));
            }
            colours.give(j);
        }
        colours.of
    }
}

/// Colours as they are given out.
struct Colours {
    of: Vec<usize>,
    /// For each colour, for whom it was forbidden last.
    forbidden: Vec<usize>,
}

impl Colours {
    const NONE: usize = usize::MAX;

    fn new(n: usize) -> Self {
        Self { of: vec![Self::NONE; n], forbidden: vec![Self::NONE; n] }
    }

    fn has(&self, k: usize) -> bool {
        self.of[k] != Self::NONE
    }

    fn forbid_that_of(&mut self, k: usize, to: usize) {
        if self.has(k) {
            self.forbidden[self.of[k]] = to;
        }
    }

    /// The first colour that is not forbidden.
    fn give(&mut self, j: usize) {
        self.of[j] = self.forbidden.iter().position(|&f| f != j).unwrap_or(self.of.len());
    }
}

/// A star colouring of a symmetric pattern.
///
/// ```
/// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
/// // All depends on the first: an arrow of any size takes two products, and one to compare.
/// let arrow = Pattern::new(50, (0..50).map(|i| vec![0, i]))?;
/// assert_eq!(Star::new(&arrow)?.products(), 3);
/// # Ok::<(), brolga::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Star {
    pattern: Pattern,
    colours: Vec<usize>,
}

impl Star {
    /// Colour the pattern of a Hessian. What one half of it says counts for both; the diagonal
    /// belongs to it in any case.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert!(Star::new(&Pattern::new(2, [vec![0, 1]])?).is_err()); // one row, two columns
    /// # Ok::<(), brolga::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not square.
    pub fn new(pattern: &Pattern) -> Result<Self, Error> {
        let n = pattern.columns;
        if pattern.rows.len() != n {
            let message =
                format!("the pattern of a Hessian is square, this one has {} rows, {n} columns", pattern.rows.len());
            return Err(Error::Usage(message));
        }
        let other = pattern.transposed();
        let both = (0..n).map(|i| [&pattern.rows[i][..], &other.rows[i], &[i]].concat());
        let pattern = Pattern::new(n, both)?;
        let mut colours = Colours::new(n);
        for v in 0..n {
            for &w in pattern.rows[v].iter().filter(|w| **w != v) {
                colours.forbid_that_of(w, v);
                for &x in pattern.rows[w].iter().filter(|x| **x != v && **x != w) {
                    let closes = |y: &usize| *y != w && *y != x && colours.has(*y) && colours.of[*y] == colours.of[w];
                    if !colours.has(w) || colours.has(x) && pattern.rows[x].iter().any(closes) {
                        colours.forbid_that_of(x, v);
                    }
                }
            }
            colours.give(v);
        }
        Ok(Self { pattern, colours: colours.of })
    }

    /// The pattern, with both halves.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// let half = Pattern::new(2, [vec![1], vec![]])?;
    /// assert_eq!(Star::new(&half)?.pattern(), &Pattern::banded(2, 1, 1));
    /// # Ok::<(), brolga::Error>(())
    /// ```
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// One colour for each row and column.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// assert_eq!(Star::new(&Pattern::banded(3, 0, 0))?.colours(), [0, 0, 0]);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    pub fn colours(&self) -> &[usize] {
        &self.colours
    }

    /// How many products the Hessian takes.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// // The diagonal by one product, and one to compare.
    /// assert_eq!(Star::new(&Pattern::banded(100, 0, 0))?.products(), 2);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    pub fn products(&self) -> usize {
        count(&self.colours) + 1
    }

    /// The entries of a Hessian from its products, one for each colour and one to compare, of which
    /// `products` gets some at a time.
    ///
    /// ```
    /// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
    /// // Of x² + 3 x y.
    /// let star = Star::new(&Pattern::new(2, [vec![0, 1], vec![0]])?)?;
    /// let hessian = star.hessian::<brolga::Error>(one_by_one(|v: &[f64]| Ok(vec![2.0 * v[0] + 3.0 * v[1], 3.0 * v[0]])))?;
    /// assert_eq!(star.pattern().dense(&hessian), [[2.0, 3.0], [3.0, 0.0]]);
    /// # Ok::<(), brolga::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `products`; [`Error::Usage`] if the pattern lacks an entry.
    pub fn hessian<E: From<Error>>(
        &self,
        mut products: impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
    ) -> Result<Entries, E> {
        let found = by_colour(&self.colours, &mut products)?;
        let (rows, colours) = (&self.pattern.rows, &self.colours);
        let alone = |i: usize, j: usize| rows[i].iter().all(|&k| k == j || colours[k] != colours[j]);
        let entry = |i: usize, j: usize| if alone(i, j) { found[colours[j]][i] } else { found[colours[i]][j] };
        let entries: Entries = (0..rows.len()).map(|i| rows[i].iter().map(|&j| entry(i, j)).collect()).collect();
        compare(&self.pattern, &entries, &mut products)?;
        Ok(entries)
    }
}

/// How many products a [Jacobian](jacobian) takes: one for each colour, and one to compare.
///
/// ```
/// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
/// let row = Pattern::new(4, [vec![0, 1, 2, 3]])?;
/// assert_eq!((sparse::products(&row, Sweep::Forward), sparse::products(&row, Sweep::Reverse)), (5, 2));
/// # Ok::<(), brolga::Error>(())
/// ```
pub fn products(pattern: &Pattern, way: Sweep) -> usize {
    let colours = match way {
        Sweep::Forward => pattern.column_colours(),
        Sweep::Reverse => pattern.transposed().column_colours(),
    };
    count(&colours) + 1
}

/// How many colours there are.
fn count(colours: &[usize]) -> usize {
    colours.iter().max().map_or(0, |c| c + 1)
}

/// The way that takes fewer products for a pattern.
///
/// ```
/// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
/// assert_eq!(sparse::cheaper(&Pattern::new(4, [vec![0, 1, 2, 3]])?), Sweep::Reverse);
/// # Ok::<(), brolga::Error>(())
/// ```
pub fn cheaper(pattern: &Pattern) -> Sweep {
    Sweep::cheaper(products(pattern, Sweep::Forward), products(pattern, Sweep::Reverse))
}

/// One product for each colour.
fn by_colour<E>(
    colours: &[usize],
    products: &mut impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let sum = |c: usize| colours.iter().map(|&k| f64::from(u8::from(k == c))).collect::<Vec<_>>();
    let sums: Vec<_> = (0..count(colours)).map(sum).collect();
    let found = sums.chunks(WIDTH).map(products).collect::<Result<Vec<_>, E>>()?;
    Ok(found.concat())
}

/// The entries of a Jacobian. `products` are those with directions ([`Sweep::Forward`]: one for
/// each colour of columns), or those of seeds with it ([`Sweep::Reverse`]: one for each colour of
/// rows), some at a time; one more compares.
///
/// ```
/// # use brolga::drivers::{Pattern, Star, Sweep, one_by_one, sparse};
/// // Of (x, y) -> (2 x, 3 y): one product for both columns, and one to compare.
/// let diagonal = Pattern::banded(2, 0, 0);
/// let products = one_by_one(|v: &[f64]| Ok(vec![2.0 * v[0], 3.0 * v[1]]));
/// assert_eq!(sparse::jacobian::<brolga::Error>(&diagonal, Sweep::Forward, products)?, [[2.0], [3.0]]);
/// // Of (x, y) -> (2 x + y, 3 y) an entry is missing.
/// let products = one_by_one(|v: &[f64]| Ok(vec![2.0 * v[0] + v[1], 3.0 * v[1]]));
/// assert!(sparse::jacobian::<brolga::Error>(&diagonal, Sweep::Forward, products).is_err());
/// # Ok::<(), brolga::Error>(())
/// ```
///
/// # Errors
/// Those of `products`; [`Error::Usage`] if the pattern lacks an entry.
pub fn jacobian<E: From<Error>>(
    pattern: &Pattern,
    way: Sweep,
    mut products: impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Entries, E> {
    if way == Sweep::Reverse {
        let by_column = pattern.transposed();
        let found = jacobian(&by_column, Sweep::Forward, products)?;
        let mut entries: Entries = pattern.rows.iter().map(|row| Vec::with_capacity(row.len())).collect();
        for (rows, column) in by_column.rows.iter().zip(&found) {
            rows.iter().zip(column).for_each(|(&i, &x)| entries[i].push(x));
        }
        return Ok(entries);
    }
    let colours = pattern.column_colours();
    let found = by_colour(&colours, &mut products)?;
    let row = |i: usize| pattern.rows[i].iter().map(|&j| found[colours[j]][i]).collect();
    let entries: Entries = (0..pattern.rows.len()).map(row).collect();
    compare(pattern, &entries, &mut products)?;
    Ok(entries)
}

/// How far the product with a matrix that was found may be from the product that was asked for,
/// relative to the sizes of its terms.
const APART: f64 = 1e-6;
/// The same of a function of singles.
const APART_SINGLE: f64 = 1e-4;
/// The same where the terms of a row cancel: what is left are roundings of larger numbers, of the
/// size of those in other rows.
const ROUNDINGS: f64 = 1e-13;
/// The same of a function of singles.
const ROUNDINGS_SINGLE: f64 = 1e-5;

fn compare<E: From<Error>>(
    pattern: &Pattern,
    entries: &[Vec<f64>],
    products: &mut impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<(), E> {
    // Fractions of multiples of the golden ratio, between 1/2 and 3/2.
    let along: Vec<f64> = (1..=pattern.columns).map(|k| 0.5 + (k as f64 * 0.618_033_988_749_894_9).fract()).collect();
    let wanted = products(std::slice::from_ref(&along))?.remove(0);
    // With doubles no product along fractions is a single.
    let single = wanted.iter().all(|&x| f64::from(x as f32) == x);
    let (apart, roundings) = if single { (APART_SINGLE, ROUNDINGS_SINGLE) } else { (APART, ROUNDINGS) };
    let largest = entries.iter().flatten().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    for (i, (columns, row)) in pattern.rows.iter().zip(entries).enumerate() {
        let terms = columns.iter().zip(row).map(|(&j, &x)| if x == 0.0 { 0.0 } else { x * along[j] });
        let (is, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + f64::abs(t)));
        let want = wanted[i];
        // What is not finite cannot be compared.
        if (is - want).abs() > apart * (size + want.abs()) + roundings * largest && size.is_finite() {
            let message = format!(
                "row {i} of the matrix has entries outside of the pattern: along a direction of no structure it gives \
                 {want:?}, what the pattern has gives {is:?}. Add the missing columns, or leave the pattern out"
            );
            return Err(Error::Usage(message).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::dense::{by_columns, one_by_one};

    fn times(matrix: &[Vec<f64>], along: &[f64]) -> Vec<f64> {
        matrix.iter().map(|row| row.iter().zip(along).map(|(a, b)| a * b).sum()).collect()
    }

    /// A symmetric pattern of no order: a few neighbours each, by a fixed rule.
    fn scattered(n: usize) -> Pattern {
        let row = |i: usize| vec![i, (i * 7 + 3) % n, (i * i + 1) % n];
        let half = Pattern::new(n, (0..n).map(row)).unwrap();
        let other = half.transposed();
        Pattern::new(n, (0..n).map(|i| [half.row(i), other.row(i)].concat())).unwrap()
    }

    fn matrix(pattern: &Pattern) -> Vec<Vec<f64>> {
        let entry = |i: usize, j: usize| 1.0 + (i.min(j) * 31 + i.max(j)) as f64;
        let entries: Entries =
            (0..pattern.rows()).map(|i| pattern.row(i).iter().map(|&j| entry(i, j)).collect()).collect();
        pattern.dense(&entries)
    }

    #[test]
    fn compressed_is_dense() {
        for (pattern, most) in [(Pattern::banded(40, 1, 1), 3), (scattered(40), 20), (Pattern::banded(5, 4, 4), 5)] {
            let matrix = matrix(&pattern);
            let n = pattern.columns();
            let mut calls = 0;
            let mut product = |along: &[f64]| {
                calls += 1;
                Ok::<_, Error>(times(&matrix, along))
            };
            assert_eq!(by_columns(n, n, one_by_one(&mut product)).unwrap(), matrix);
            calls = 0;
            for way in [Sweep::Forward, Sweep::Reverse] {
                let found =
                    jacobian::<Error>(&pattern, way, one_by_one(|along: &[f64]| Ok(times(&matrix, along)))).unwrap();
                assert_eq!(pattern.dense(&found), matrix, "{way:?}");
            }
            let star = Star::new(&pattern).unwrap();
            let found = star
                .hessian::<Error>(one_by_one(|along: &[f64]| {
                    calls += 1;
                    Ok(times(&matrix, along))
                }))
                .unwrap();
            assert_eq!(star.pattern().dense(&found), matrix);
            assert!(calls <= most + 1, "{calls} products of {n} columns");
        }
        // A pattern that is no symmetric matrix's, long and narrow.
        let arrow = Pattern::new(3, (0..20).map(|i| vec![i % 2, 2])).unwrap();
        let matrix = matrix(&arrow);
        let found =
            jacobian::<Error>(&arrow, Sweep::Forward, one_by_one(|along: &[f64]| Ok(times(&matrix, along)))).unwrap();
        assert_eq!(arrow.dense(&found), matrix);
        assert_eq!(arrow.column_colours().iter().max(), Some(&1));
    }

    #[test]
    fn an_arrow_takes_two_products() {
        let n = 30;
        let arrow = Pattern::new(n, (0..n).map(|i| if i == 0 { (0..n).collect() } else { vec![0, i] })).unwrap();
        // Its first column shares a row with each other one, so that a Jacobian has no use for it.
        assert_eq!(arrow.column_colours().iter().max(), Some(&(n - 1)));
        assert_eq!(Star::new(&arrow).unwrap().colours().iter().max(), Some(&1));
    }

    /// Products of a function of singles have the digits of singles.
    #[test]
    fn singles_are_compared_as_singles() {
        let pattern = Pattern::banded(6, 1, 1);
        let matrix = matrix(&pattern);
        let single = |x: f64| f64::from((x * (1.0 + 2e-6)) as f32);
        let times_single = |along: &[f64]| times(&matrix, along).into_iter().map(single).collect::<Vec<f64>>();
        jacobian::<Error>(
            &pattern,
            Sweep::Forward,
            one_by_one(|along: &[f64]| {
                let integral = along.iter().all(|x| x.fract() == 0.0);
                Ok(if integral { times(&matrix, along) } else { times_single(along) })
            }),
        )
        .unwrap();
        let narrow = Pattern::banded(6, 0, 1);
        assert!(jacobian::<Error>(&narrow, Sweep::Forward, one_by_one(|a: &[f64]| Ok(times_single(a)))).is_err());
    }

    /// Of a row whose terms cancel roundings are left, other ones along each direction.
    #[test]
    fn a_row_may_be_made_of_roundings() {
        let pattern = Pattern::banded(6, 1, 1);
        let matrix = matrix(&pattern);
        let rounded = |along: &[f64]| {
            let mut product = times(&matrix, along);
            product[2] = 1e-14 * along.iter().sum::<f64>().sin();
            product
        };
        let found = jacobian::<Error>(&pattern, Sweep::Forward, one_by_one(|a: &[f64]| Ok(rounded(a)))).unwrap();
        assert!(found[2].iter().all(|x| x.abs() < 1e-13));
    }

    #[test]
    fn an_entry_that_is_missing_is_seen() {
        let full = matrix(&Pattern::banded(10, 1, 1));
        let too_narrow = Pattern::banded(10, 0, 1);
        let wrong = jacobian::<Error>(&too_narrow, Sweep::Forward, one_by_one(|along: &[f64]| Ok(times(&full, along))));
        assert!(matches!(wrong, Err(Error::Usage(m)) if m.contains("outside of the pattern")));
        // Half of a symmetric pattern is enough.
        let star = Star::new(&too_narrow).unwrap();
        assert_eq!(
            star.pattern().dense(&star.hessian::<Error>(one_by_one(|a: &[f64]| Ok(times(&full, a)))).unwrap()),
            full
        );
        let star = Star::new(&Pattern::banded(10, 0, 0)).unwrap();
        assert!(star.hessian::<Error>(one_by_one(|a: &[f64]| Ok(times(&full, a)))).is_err());
        assert!(Pattern::new(2, [vec![2]]).is_err() && Star::new(&Pattern::new(2, [vec![1]]).unwrap()).is_err());
    }
}

//! Dense matrices from products with all units, some at a time.
//!
//! **Question.** A function gives products of a matrix with vectors. How is the matrix had, in the
//! fewest runs?
//!
//! **Answer.** By its products with all units: of directions by columns ([`by_columns`]), of seeds
//! by rows ([`by_rows`]); [`Sweep::cheaper`] says which are fewer. Up to [`WIDTH`] vectors go in
//! one run where there is a batch ([`some_at_a_time`]): their derivatives lie side by side in
//! memory ([`interleave`], [`of_direction`]).
//!
//! **Cost.** A product for each column or each row, [`WIDTH`] of them in a run. Units are vectors
//! as long as the matrix is wide, of which no more than [`WIDTH`] are there at once.

/// Along how many directions at once drivers run forward mode.
///
/// ```
/// use brolga::drivers::support::{Lane, WIDTH, interleave, of_direction, width_for};
///
/// assert_eq!((width_for(3), width_for(100)), (4, WIDTH));
/// // Tangents of two floats along two directions, side by side.
/// let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
/// let mut batch = vec![0; 16];
/// interleave(&mut batch, &bytes(&[1.0, 2.0]), 4, Lane { k: 0, width: 2 });
/// interleave(&mut batch, &bytes(&[5.0, 6.0]), 4, Lane { k: 1, width: 2 });
/// assert_eq!(batch, bytes(&[1.0, 5.0, 2.0, 6.0]));
/// assert_eq!(of_direction(&batch, 4, Lane { k: 1, width: 2 }), bytes(&[5.0, 6.0]));
/// ```
pub const WIDTH: usize = 8;

/// The width of a rule for so many directions, at most [`WIDTH`] and more than one: few widths
/// serve all numbers, and what is left over is along nothing.
///
/// ```
/// assert_eq!([2, 3, 8, 50].map(brolga::drivers::support::width_for), [2, 4, 8, 8]);
/// ```
pub fn width_for(directions: usize) -> usize {
    directions.next_power_of_two().min(WIDTH)
}

/// One derivative of a batch: number `k` of `width`.
///
/// ```
/// let last = brolga::drivers::support::Lane { k: 3, width: 4 };
/// assert!(last.k < last.width);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number, from zero on.
    pub k: usize,
    /// How many there are.
    pub width: usize,
}

impl Lane {
    /// The only derivative of a batch of one.
    pub const ONLY: Self = Self { k: 0, width: 1 };
}

/// Put the tangent of memory along one direction of a batch where it belongs: `bytes` are those of
/// floats of `size` bytes each.
///
/// ```
/// # use brolga::drivers::support::{Lane, interleave};
/// let mut batch = [0; 4]; // of two floats of a byte each, as it were
/// interleave(&mut batch, &[7, 8], 1, Lane { k: 1, width: 2 });
/// assert_eq!(batch, [0, 7, 0, 8]);
/// ```
pub fn interleave(batch: &mut [u8], bytes: &[u8], size: usize, Lane { k, width }: Lane) {
    let places = batch.chunks_exact_mut(size).skip(k).step_by(width);
    places.zip(bytes.chunks_exact(size)).for_each(|(place, float)| place.copy_from_slice(float));
}

/// The tangent of memory along one direction of a batch.
///
/// ```
/// # use brolga::drivers::support::{Lane, of_direction};
/// assert_eq!(of_direction(&[5, 7, 6, 8], 1, Lane { k: 1, width: 2 }), [7, 8]);
/// ```
pub fn of_direction(batch: &[u8], size: usize, Lane { k, width }: Lane) -> Vec<u8> {
    batch.chunks_exact(size).skip(k).step_by(width).flatten().copied().collect()
}

/// How a Jacobian is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// One run of forward mode for each input.
    Forward,
    /// One forward pass, and one pullback for each output.
    Reverse,
}

impl Sweep {
    /// The one that needs less: forward mode where there are fewer inputs than outputs, else
    /// reverse mode. A pullback costs about as much as a run of forward mode.
    ///
    /// ```
    /// # use brolga::drivers::Sweep;
    /// assert_eq!((Sweep::cheaper(1, 100), Sweep::cheaper(100, 1)), (Sweep::Forward, Sweep::Reverse));
    /// ```
    pub fn cheaper(inputs: usize, outputs: usize) -> Self {
        if inputs < outputs { Self::Forward } else { Self::Reverse }
    }
}

/// Products with each of some vectors: [`WIDTH`] at a time by `batch`, or, where that has none, by
/// `one`.
///
/// ```
/// # use brolga::drivers::support::some_at_a_time;
/// let mut runs = 0;
/// let twice = |v: &[f64]| v.iter().map(|x| 2.0 * x).collect::<Vec<_>>();
/// let batch = |runs: &mut i32, some: &[Vec<f64>]| {
///     *runs += 1;
///     Ok::<_, ()>(Some(some.iter().map(|v| twice(v)).collect()))
/// };
/// let found = some_at_a_time(&mut runs, &vec![vec![1.0]; 20], batch, |_, v| Ok(twice(v)));
/// assert_eq!((found, runs), (Ok(vec![vec![2.0]; 20]), 3)); // 8, 8 and 4 vectors
/// ```
///
/// # Errors
/// Those of `batch` and of `one`.
pub fn some_at_a_time<S, E>(
    of: &mut S,
    vectors: &[Vec<f64>],
    batch: impl Fn(&mut S, &[Vec<f64>]) -> Result<Option<Vec<Vec<f64>>>, E>,
    one: impl Fn(&mut S, &[f64]) -> Result<Vec<f64>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let mut found = Vec::with_capacity(vectors.len());
    for some in vectors.chunks(WIDTH) {
        match batch(of, some)? {
            Some(products) => found.extend(products),
            None => some.iter().try_for_each(|v| one(of, v).map(|product| found.push(product)))?,
        }
    }
    Ok(found)
}

/// The units of `n` dimensions, in their order, [`WIDTH`] at a time, through `f`.
fn units<E>(n: usize, mut f: impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>) -> Result<Vec<Vec<f64>>, E> {
    let mut found = Vec::with_capacity(n);
    while found.len() < n {
        let some = found.len()..n.min(found.len() + WIDTH);
        let unit = |i: usize| {
            let mut unit = vec![0.0; n];
            unit[i] = 1.0;
            unit
        };
        found.extend(f(&some.map(unit).collect::<Vec<_>>())?);
    }
    Ok(found)
}

/// A matrix, row by row, from its products with directions, of which `products` gets some at a
/// time.
///
/// ```
/// # use brolga::drivers::{by_columns, one_by_one};
/// let product = |v: &[f64]| Ok::<_, ()>(vec![v[0] + 2.0 * v[1]]);
/// assert_eq!(by_columns(1, 2, one_by_one(product)), Ok(vec![vec![1.0, 2.0]]));
/// ```
///
/// # Errors
/// Those of `products`.
pub fn by_columns<E>(
    rows: usize,
    columns: usize,
    products: impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let found = units(columns, products)?;
    Ok((0..rows).map(|i| found.iter().map(|column| column[i]).collect()).collect())
}

/// A matrix, row by row, from products of rows of seeds with it, of which `products` gets some at a
/// time.
///
/// ```
/// # use brolga::drivers::{by_rows, one_by_one};
/// let product = |s: &[f64]| Ok::<_, ()>(vec![s[0], 2.0 * s[0]]);
/// assert_eq!(by_rows(1, one_by_one(product)), Ok(vec![vec![1.0, 2.0]]));
/// ```
///
/// # Errors
/// Those of `products`.
pub fn by_rows<E>(
    rows: usize,
    products: impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    units(rows, products)
}

/// Products with some vectors, from a function for one.
///
/// ```
/// # use brolga::drivers::one_by_one;
/// let mut products = one_by_one(|v: &[f64]| Ok::<_, ()>(vec![2.0 * v[0]]));
/// assert_eq!(products(&[vec![1.0], vec![3.0]]), Ok(vec![vec![2.0], vec![6.0]]));
/// ```
pub fn one_by_one<E>(
    mut product: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E> {
    move |vectors| vectors.iter().map(|v| product(v)).collect()
}

//! The problems under criterion, for statistics and for comparisons with an earlier run.

#![allow(missing_docs, reason = "what criterion's macros define is not documented")]

use benches::{PreparedProblem, Size, problems};
use brolga::Mode;
use criterion::{Criterion, criterion_group, criterion_main};

fn gradients(c: &mut Criterion) {
    for (_, make) in problems::ALL {
        let problem = make(Size::Full);
        let mut p = PreparedProblem::new(&problem, Mode::Gradient.into())
            .and_then(|mut p| p.check().map(|()| p))
            .unwrap_or_else(|e| panic!("{e}"));
        let mut group = c.benchmark_group(problem.name);
        group.bench_function("primal", |b| b.iter(|| p.primal()));
        group.bench_function("gradient", |b| b.iter(|| p.gradient()));
        if p.has_hand() {
            group.bench_function("by hand", |b| b.iter(|| p.hand()));
        }
        group.finish();
    }
}

criterion_group!(all, gradients);
criterion_main!(all);

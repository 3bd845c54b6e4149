//! The planner by size and shape, and its parts.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use heap_host::plan::{Instance, Options, bound, csv, generate, plan, verify};

type Make = fn(u64, usize) -> Instance;

const SHAPES: [(&str, Make); 3] = [
    ("pipeline", generate::pipeline),
    ("training", generate::training),
    ("cut", |seed, count| {
        generate::cut_rectangle(seed, count, 1 << 20, 1 << 40)
    }),
];

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for (shape, make) in SHAPES {
        for count in [1_000, 10_000, 60_000] {
            let instance = make(1, count);
            group.throughput(Throughput::Elements(count as u64));
            group.bench_with_input(BenchmarkId::new(shape, count), &instance, |b, instance| {
                b.iter(|| plan(black_box(instance), &Options::default()));
            });
        }
    }
    group.finish();
}

fn shipped(criterion: &mut Criterion) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/planner/hlt1_static.csv"
    );
    let instance = csv::read_instance(path.as_ref()).expect("the shipped file is valid");
    criterion.bench_function("plan/hlt1_static", |b| {
        b.iter(|| plan(black_box(&instance), &Options::default()));
    });
}

fn parts(criterion: &mut Criterion) {
    let instance = generate::pipeline(1, 60_000);
    let found = plan(&instance, &Options::default()).expect("a pipeline can be planned");
    let mut text = Vec::new();
    csv::format_plan(&instance, found.offsets(), &mut text).expect("memory can be written");
    let mut group = criterion.benchmark_group("parts_60000");
    group.sample_size(10);
    group.bench_function("lower_bound", |b| {
        b.iter(|| bound::lower_bound(black_box(&instance)))
    });
    group.bench_function("verify", |b| {
        b.iter(|| verify::verify(&instance, found.offsets()))
    });
    group.bench_function("read_csv", |b| {
        b.iter(|| csv::parse_plan(black_box(&text), "plan.csv"))
    });
    group.finish();
}

criterion_group!(benches, plans, shipped, parts);
criterion_main!(benches);

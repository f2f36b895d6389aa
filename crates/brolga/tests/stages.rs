//! Dumps of small functions, one for each shape of control flow and kind of statement; what dumps
//! promise in general is checked on the examples of the documentation.

use std::path::Path;

use brolga::{Error, MemoryMode, Options, Pass, PassSet, Request, Stage, dot, dump, dumps};
use brolga_driver::{File, guess};
use expect_test::{Expect, expect};

fn parse(source: &str) -> (File, Request) {
    let file = File::parse("test.clif", source).unwrap_or_else(|e| panic!("{e}"));
    let request = guess::request(&file.program, file.functions[0].0);
    (file, request)
}

fn check(source: &str, options: &Options, stage: Stage, expected: Expect) {
    let (file, request) = parse(source);
    let text = dump(&file.program, &request, options, stage).unwrap_or_else(|e| panic!("{e}"));
    expected.assert_eq(&text);
}

/// The sources of `docs/examples`, in order of names.
fn examples() -> Vec<(String, File)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "clif"));
    paths.sort();
    let name = |p: &Path| p.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|p| (name(p), File::read(p).unwrap_or_else(|e| panic!("{e}")))).collect()
}

fn modes() -> [Options; 2] {
    [MemoryMode::Leave, MemoryMode::Restore].map(|memory| Options { memory, ..Options::full() })
}

/// Each pullback once, with its guards.
fn guarded() -> Options {
    Options { disabled: PassSet::from(Pass::VersionGuards), ..Options::full() }
}

#[test]
fn straight_line() {
    let source = "function %f(f64) -> f64 {
block0(v0: f64):
    v1 = sqrt v0
    return v1
}";
    check(
        source,
        &Options::full(),
        Stage::Stmts,
        expect![[r#"
            ; %f (f64 active) -> (f64 active)

            block0:  ; runs at most once
              v0: f64  ; active f64, under a root
              inst0 v1 = sqrt.f64 v0
                  facts    v1 active f64
                  reverse  d1 = take ct(v1)
                           d2 = fadd.f64 v1, v1
                           d3 = fabs.f64 d2
                           d4 = fdiv.f64 d1, d3
                           d5 = nonzero.f64 d1
                           d6 = keep_where.f64 d4, d5
                           ct(v0) += d6
                  comms    v1
              inst1 return v1
                  reverse  ct(v1) += d0
        "#]],
    );
    check(
        source,
        &Options::full(),
        Stage::Pullback,
        expect![[r#"
            ; %f (f64 active) -> (f64 active)

            %f__pullback(i64, f64) -> f64 fast

            bb1(seg: i64, d0: f64):  ; entry
                open frame
                jump bb2

            bb2:  ; reverse of block0, from bb1
                ct(v0), ct(v1) = 0
                ; return v1
                ct(v1) += d0
                ; v1 = sqrt.f64 v0
                d1 = take ct(v1)
                v1 = restore.f64 frame+8
                d2 = fadd.f64 v1, v1
                d3 = fabs.f64 d2
                d4 = fdiv.f64 d1, d3
                d5 = nonzero.f64 d1
                d6 = keep_where.f64 d4, d5
                ct(v0) += d6
                jump bb3

            bb3:  ; exit, from bb2
                ; parameters of block0
                d9 = take ct(v0)
                close frame
                return d9
        "#]],
    );
}

#[test]
fn branch_with_block_parameter() {
    let source = "function %f(f64, f64, i32) -> f64 {
block0(v0: f64, v1: f64, v2: i32):
    brif v2, block1(v0), block1(v1)
block1(v3: f64):
    v4 = fneg v3
    return v4
}";
    check(
        source,
        &Options::full(),
        Stage::Cfg,
        expect![[r#"
        ; %f (f64 active, f64 active, i32 const) -> (f64 active)

        %f(f64, f64, i32) -> f64 system_v

        bb0(v0: f64, v1: f64, v2: i32):  ; forward of block0
                  brif v2, bb2(v0), bb1

        bb1:  ; forward of block1, from bb0
                  jump bb2(v1)

        bb2(v3: f64):  ; forward of block2, from bb0, bb1
            i0    v4 = fneg.f64 v3
                  return v4
    "#]],
    );
    check(
        source,
        &Options::full(),
        Stage::Pullback,
        expect![[r#"
            ; %f (f64 active, f64 active, i32 const) -> (f64 active)

            %f__pullback(i64, f64) -> f64, f64 fast

            bb3(seg: i64, d0: f64):  ; entry
                open frame
                jump bb4

            bb4:  ; reverse of block2, from bb3
                ct(v3), ct(v4) = 0
                ; return v4
                ct(v4) += d0
                ; v4 = fneg.f64 v3
                d1 = take ct(v4)
                d2 = fneg.f64 d1
                ct(v3) += d2
                ; parameters of block2
                d5 = take ct(v3)
                d6 = block at frame+8
                switch d6, [block 0: bb8, block 1: bb5]

            bb8:  ; edge block0 -> block2, from bb4
                ct(v0), ct(v1) = 0
                ; brif.i32 v2, block2(v0), block1
                ct(v0) += d5
                jump bb6

            bb5:  ; reverse of block1, from bb4
                ct(v1) = 0
                ; jump block2(v1)
                ct(v1) += d5
                ct(v0) = 0
                jump bb6

            bb6:  ; reverse of block0, from bb8, bb5
                jump bb7

            bb7:  ; exit, from bb6
                ; parameters of block0
                d7 = take ct(v0)
                d8 = take ct(v1)
                close frame
                return d7, d8
        "#]],
    );
}

#[test]
fn loop_of_two_values() {
    let source = "function %f(f64, i32) -> f64 {
block0(v0: f64, v1: i32):
    v2 = f64const 0x1.0
    jump block1(v0, v2, v1)
block1(v3: f64, v4: f64, v5: i32):
    v6 = fmul v3, v4
    v7 = iconst.i32 1
    v8 = isub v5, v7
    brif v8, block1(v4, v6, v8), block2
block2:
    return v6
}";
    check(
        source,
        &guarded(),
        Stage::Forward,
        expect![[r#"
            ; %f (f64 active, i32 const) -> (f64 active)

            ; Plan: an activation frame of 16 bytes.
            ; block0 runs at most once, as the entry
            ;   keeps v1 at frame+8
            ; block1 runs in a loop, entered from block0 if v6 is v1, else from block1
            ;   pushes v5, v4: 16 bytes each time
            ;   reads v5 from the record, for inst3
            ;   reads v4 from the record, for inst3
            ;   has v6 in a variable, for holding v6, the way back
            ;   has v1 in a variable, for the way back
            ;   computes v8 = iconst.i32 1, for holding v6
            ;   its loop asks once whether there is room on the tape, for 16 bytes an iteration
            ;   its loop runs iteration by iteration, since it records
            ;   the reverse of its loop runs iteration by iteration, since it does not read and write neighbours one after the other
            ;   on the way back to block1, v6 is v6, 1 steps back
            ; block2 runs at most once, entered from block1 only
            ;   computes v3 = iconst.i32 0, for v6
            ;   knows v6 behind its loop: its next value would be v3, for holding v6
            ;   reads v1 from frame+8, kept by block0, for holding v1
            ;   on the way back to block1, v6 is v6
            ;   on the way back to block1, v1 is v1

            %f__forward(f64, i32, i64) -> f64 fast

            bb0(v0: f64, v1: i32, seg: i64):  ; forward of block0
                enter frame
                keep frame+8 = v1
                v2 = f64const 0x1.0000000000000p0
                v3 = iconst.i32 0
                jump bb1(v0, v2, v1)

            bb1(v4: f64, v5: f64, v6: i32):  ; forward of block1, from bb0, bb1
                v7 = fmul.f64 v4, v5
                v8 = iconst.i32 1
                v9 = isub.i32 v6, v8  ; v8 = 1
                v10 = icmp.i32 ne v9, v3  ; v3 = 0
                push [v5, v4]
                brif v10, bb1(v5, v7, v9), bb2

            bb2:  ; forward of block2, from bb1
                leave frame
                return v7
        "#]],
    );
    check(
        source,
        &guarded(),
        Stage::Pullback,
        expect![[r#"
            ; %f (f64 active, i32 const) -> (f64 active)

            %f__pullback(i64, f64) -> f64 fast

            bb3(seg: i64, d0: f64):  ; entry
                open frame
                jump bb4

            bb4:  ; reverse of block2, from bb3
                ct(v7) = 0
                ; return v7
                ct(v7) += d0
                v3 = iconst.i32 0
                d9 = iconst.i32 -1
                v6 = isub.i32 v3, d9
                d10 = copy.i32 v6
                v1 = restore.i32 frame+8
                d11 = copy.i32 v1
                hold v6 = d10
                hold v1 = d11
                ct(v5) = 0
                jump bb5

            bb5:  ; reverse of block1, from bb4, bb8
                pop [v5, v4]
                ct(v4) = 0
                ; v7 = fmul.f64 v4, v5
                d1 = take ct(v7)
                d2 = fmul.f64 d1, v5
                d3 = nonzero.f64 d1
                d4 = keep_where.f64 d2, d3
                ct(v4) += d4
                d5 = fmul.f64 d1, v4
                d6 = keep_where.f64 d5, d3
                ct(v5) += d6
                v6 = held.i32 v6
                v8 = iconst.i32 1
                d12 = iadd.i32 v6, v8
                ; parameters of block1
                d13 = take ct(v4)
                d14 = take ct(v5)
                v1 = held.i32 v1
                ; v7 = fmul.f64 v4, v5
                d15 = icmp.i8 eq v6, v1
                brif d15, bb6, bb8

            bb8:  ; edge block1 -> block1, from bb5
                hold v6 = d12
                ct(v5), ct(v7) = 0
                ; brif.i8 v10, block1(v5, v7, v9), block2
                ct(v5) += d13
                ct(v7) += d14
                jump bb5

            bb6:  ; reverse of block0, from bb5
                ct(v0) = 0
                ; jump block1(v0, v2, v1)  ; v2 = 0x1.0000000000000p0
                ct(v0) += d13
                jump bb7

            bb7:  ; exit, from bb6
                ; parameters of block0
                d16 = take ct(v0)
                close frame
                return d16
        "#]],
    );
}

#[test]
fn two_returns() {
    let source = "function %f(f64, i32) -> f64 {
block0(v0: f64, v1: i32):
    brif v1, block1, block2
block1:
    v2 = fneg v0
    return v2
block2:
    return v0
}";
    check(
        source,
        &Options::full(),
        Stage::Forward,
        expect![[r#"
        ; %f (f64 active, i32 const) -> (f64 active)

        ; Plan: an activation frame of 16 bytes; block numbers of 1 byte.
        ; frame+8 tells which block returned
        ; block0 runs at most once, as the entry
        ; block1 runs at most once, entered from block0 only
        ;   keeps its number at frame+8
        ; block2 runs at most once, entered from block0 only
        ;   keeps its number at frame+8

        %f__forward(f64, i32, i64) -> f64 fast

        bb0(v0: f64, v1: i32, seg: i64):  ; forward of block0
            enter frame
            brif v1, bb1, bb2

        bb1:  ; forward of block1, from bb0
            v2 = fneg.f64 v0
            keep frame+8 = block 1
            leave frame
            return v2

        bb2:  ; forward of block2, from bb0
            keep frame+8 = block 2
            leave frame
            return v0
    "#]],
    );
    check(
        source,
        &Options::full(),
        Stage::Pullback,
        expect![[r#"
        ; %f (f64 active, i32 const) -> (f64 active)

        %f__pullback(i64, f64) -> f64 fast

        bb3(seg: i64, d0: f64):  ; entry
            open frame
            d5 = block at frame+8
            switch d5, [block 1: bb5, block 2: bb4]

        bb4:  ; reverse of block2, from bb3
            ct(v0) = 0
            ; return v0
            ct(v0) += d0
            jump bb6

        bb5:  ; reverse of block1, from bb3
            ct(v0), ct(v2) = 0
            ; return v2
            ct(v2) += d0
            ; v2 = fneg.f64 v0
            d1 = take ct(v2)
            d2 = fneg.f64 d1
            ct(v0) += d2
            jump bb6

        bb6:  ; reverse of block0, from bb4, bb5
            jump bb7

        bb7:  ; exit, from bb6
            ; parameters of block0
            d6 = take ct(v0)
            close frame
            return d6
    "#]],
    );
}

#[test]
fn load_and_store() {
    let source = "function %f(i64, f64) {
    ss0 = explicit_slot 8
block0(v0: i64, v1: f64):
    v2 = stack_addr.i64 ss0
    store v1, v2
    v3 = load.f64 v2
    store v3, v0+16
    return
}";
    check(
        source,
        &Options::full(),
        Stage::Stmts,
        expect![[r#"
            ; %f (i64 duplicated, f64 active) -> ()

            block0:  ; runs at most once
              v0: i64  ; shadow by v0'
              v1: f64  ; active f64
              inst0 v2 = stack_addr.i64 ss0
                  facts    v2 shadow by v2'
              inst1 store.f64 v1, v2
                  facts    moves f64
                  reverse  d0 = shadow.f64[v2; v2']
                           ct(v1) += d0
                  comms    v2, v2'
              inst2 v3 = load.f64 v2
                  facts    v3 active f64; moves f64
                  reverse  d1 = take ct(v3)
                           shadow.f64[v2; v2'] = d1
                  comms    v2, v2'
              inst3 store.f64 v3, v0+16
                  facts    moves f64
                  reverse  d2 = take shadow.f64[v0+16; v0']
                           ct(v3) += d2
                  comms    v0, v0'
              inst4 return
        "#]],
    );
    let restore = Options { memory: MemoryMode::Restore, ..Options::full() };
    check(
        source,
        &restore,
        Stage::Forward,
        expect![[r#"
            ; %f (i64 duplicated, f64 active) -> ()

            ; Plan: an activation frame of 96 bytes.
            ; shadow of ss0 at frame+16, ss0 itself at frame+32
            ; block0 runs at most once, as the entry
            ;   keeps v2 at frame+48
            ;   keeps i1:0 at frame+56
            ;   keeps v2' at frame+64
            ;   keeps v0 at frame+72
            ;   keeps i3:0 at frame+80
            ;   keeps v0' at frame+88
            ;   reads v2 from frame+48, for inst1, inst2
            ;   reads i1:0 from frame+56, for inst1
            ;   reads v2' from frame+64, for inst1, inst2
            ;   reads v0 from frame+72, for inst3
            ;   reads i3:0 from frame+80, for inst3
            ;   reads v0' from frame+88, for inst3

            %f__forward(i64, f64, i64, i64) fast

            bb0(v0: i64, v1: f64, v0': i64, seg: i64):  ; forward of block0
                enter frame
                keep frame+72 = v0
                keep frame+88 = v0'
                v2' = delta of ss0
                keep frame+64 = v2'
                v2 = address of ss0 in frame
                keep frame+48 = v2
                i1:0 = mem.f64[v2]
                keep frame+56 = i1:0
                store.f64 v1, v2
                v3 = load.f64 v2
                i3:0 = mem.f64[v0+16]
                keep frame+80 = i3:0
                store.f64 v3, v0+16
                leave frame
                return
        "#]],
    );
    check(
        source,
        &restore,
        Stage::Pullback,
        expect![[r#"
            ; %f (i64 duplicated, f64 active) -> ()

            %f__pullback(i64) -> f64 fast

            bb1(seg: i64):  ; entry
                open frame
                jump bb2

            bb2:  ; reverse of block0, from bb1
                ct(v1), ct(v3) = 0
                v0 = restore.i64 frame+72
                i3:0 = restore.f64 frame+80
                ; store.f64 v3, v0+16
                mem[v0+16] = i3:0
                v0' = restore.i64 frame+88
                d2 = take shadow.f64[v0+16; v0']
                ct(v3) += d2
                ; v3 = load.f64 v2
                d1 = take ct(v3)
                v2 = restore.i64 frame+48
                v2' = restore.i64 frame+64
                shadow.f64[v2; v2'] += d1
                i1:0 = restore.f64 frame+56
                ; store.f64 v1, v2
                mem[v2] = i1:0
                d0 = take shadow.f64[v2; v2']
                ct(v1) += d0
                jump bb3

            bb3:  ; exit, from bb2
                ; parameters of block0
                d5 = take ct(v1)
                close frame
                return d5
        "#]],
    );
}

const CALLS: &str = "function %f(f64, i64) -> f64 {
    sig0 = (f64) -> f64
    fn0 = %g(i64, f64) -> f64
block0(v0: f64, v1: i64):
    v2 = load.i64 v1
    v3 = call fn0(v1, v0)
    v4 = call_indirect sig0, v2(v3)
    return v4
}
function %g(i64, f64) -> f64 {
block0(v0: i64, v1: f64):
    v2 = load.f64 v0+8
    v3 = fadd v2, v1
    return v3
}";

#[test]
fn calls_forwards() {
    check(
        CALLS,
        &Options::as_calls(),
        Stage::Forward,
        expect![[r#"
            ; %f (f64 active, i64 duplicated) -> (f64 active)

            ; Plan: an activation frame of 16 bytes.
            ; block0 runs at most once, as the entry
            ;   keeps i2:1 at frame+8
            ;   reads i2:1 from frame+8, for inst2

            %f__forward(f64, i64, i64, i64) -> f64 fast

            bb0(v0: f64, v1: i64, v1': i64, seg: i64):  ; forward of block0
                enter frame
                v2 = load.i64 v1
                v3 = call %g__forward(v1, v0, v1', seg)
                i2:0, i2:1 = lookup v2, signature 0x5b224f9176836cd5
                keep frame+8 = i2:1
                v4 = call i2:0(v3, seg)
                leave frame
                return v4

            ; %g (i64 duplicated of f64, f64 active) -> (f64 active)

            ; Plan: an activation frame of 24 bytes.
            ; block0 runs at most once, as the entry
            ;   keeps v0 at frame+8
            ;   keeps v0' at frame+16
            ;   reads v0 from frame+8, for inst0
            ;   reads v0' from frame+16, for inst0

            %g__forward(i64, f64, i64, i64) -> f64 fast

            bb0(v0: i64, v1: f64, v0': i64, seg: i64):  ; forward of block0
                enter frame
                keep frame+8 = v0
                keep frame+16 = v0'
                v2 = load.f64 v0+8
                v3 = fadd.f64 v2, v1
                leave frame
                return v3
        "#]],
    );
}

#[test]
fn calls_in_reverse() {
    check(
        CALLS,
        &Options::as_calls(),
        Stage::Pullback,
        expect![[r#"
            ; %f (f64 active, i64 duplicated) -> (f64 active)

            %f__pullback(i64, f64) -> f64 fast

            bb1(seg: i64, d0: f64):  ; entry
                open frame
                jump bb2

            bb2:  ; reverse of block0, from bb1
                ct(v0), ct(v3), ct(v4) = 0
                ; return v4
                ct(v4) += d0
                ; v4 = call_indirect.i64 sig0, v2(v3)
                d3 = take ct(v4)
                i2:1 = restore.i64 frame+8
                d4 = call i2:1(seg, d3)
                ct(v3) += d4
                ; v3 = call fn0(v1, v0)  ; %g
                d1 = take ct(v3)
                d2 = call %g__pullback(seg, d1)
                ct(v0) += d2
                jump bb3

            bb3:  ; exit, from bb2
                ; parameters of block0
                d7 = take ct(v0)
                close frame
                return d7

            ; %g (i64 duplicated of f64, f64 active) -> (f64 active)

            %g__pullback(i64, f64) -> f64 fast

            bb1(seg: i64, d0: f64):  ; entry
                open frame
                jump bb2

            bb2:  ; reverse of block0, from bb1
                ct(v1), ct(v2), ct(v3) = 0
                ; return v3
                ct(v3) += d0
                ; v3 = fadd.f64 v2, v1
                d2 = take ct(v3)
                ct(v2) += d2
                ct(v1) += d2
                ; v2 = load.f64 v0+8
                d1 = take ct(v2)
                v0 = restore.i64 frame+8
                v0' = restore.i64 frame+16
                shadow.f64[v0+8; v0'] += d1
                jump bb3

            bb3:  ; exit, from bb2
                ; parameters of block0
                d5 = take ct(v1)
                close frame
                return d5
        "#]],
    );
}

#[test]
fn problems_instead_of_a_dump() {
    let (file, request) = parse(
        "function %f(f64) -> f64 {
    fn0 = %unknown(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}",
    );
    for stage in Stage::ALL {
        let Err(Error::Diagnostics(found)) = dump(&file.program, &request, &Options::full(), stage) else {
            panic!("{} has a dump", stage.name())
        };
        assert_eq!(found.0[0].code, "AD0150");
    }
    assert!(dot(&file.program, &request, &Options::full()).is_err());
}

/// `normalised` and the CLIF stages are parsed and verified again, by nothing of ours but the
/// reader of files.
#[test]
fn clif_stages_are_clif() {
    for (name, file) in examples() {
        for (options, stage) in modes()
            .iter()
            .flat_map(|o| [Stage::Normalised, Stage::ClifForward, Stage::ClifPullback].map(|stage| (o, stage)))
        {
            let request = guess::request(&file.program, file.functions[0].0);
            let text = dump(&file.program, &request, options, stage).unwrap_or_else(|e| panic!("{name}: {e}"));
            let reparsed = File::parse(&name, &text).unwrap_or_else(|e| panic!("{name}, {}: {e}", stage.name()));
            let defined = text.lines().filter(|l| l.starts_with("function ")).count();
            assert_eq!(reparsed.functions.len(), defined, "{name}, {}", stage.name());
        }
    }
}

/// Twice the same text: nothing in a dump depends on hash order or on what was dumped before.
#[test]
fn dumps_are_deterministic() {
    for (name, file) in examples() {
        let request = guess::request(&file.program, file.functions[0].0);
        let all = || {
            let texts = dumps(&file.program, &request, &Options::full(), &Stage::ALL).unwrap();
            let dot = dot(&file.program, &request, &Options::full()).unwrap();
            texts.join("") + &dot
        };
        assert_eq!(all(), all(), "{name}");
    }
}

#[test]
fn drawing() {
    for (name, file) in examples() {
        let request = guess::request(&file.program, file.functions[0].0);
        let text = dot(&file.program, &request, &Options::full()).unwrap();
        well_formed(&name, &text);
        let count = |what: &str| text.matches(what).count();
        let pullback = dump(&file.program, &request, &Options::full(), Stage::Pullback).unwrap();
        assert_eq!(
            count("style=dashed"),
            pullback.matches("; reverse of").count(),
            "{name}: a tie for each reverse block"
        );
        assert_eq!(count("subgraph"), 2 * pullback.lines().filter(|l| l.starts_with('%')).count(), "{name}");
    }
}

/// Brackets, quotes and tags of a DOT text close in the order in which they open.
fn well_formed(name: &str, text: &str) {
    for line in text.lines().map(str::trim) {
        let Some((_, label)) = line.split_once("[label=<") else {
            assert_eq!(line.matches('"').count() % 2, 0, "{name}: {line}");
            continue;
        };
        let html = label.strip_suffix(">];").unwrap_or_else(|| panic!("{name}: {line}"));
        let mut open: Vec<&str> = Vec::new();
        for tag in html.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap_or_else(|| panic!("{name}: {html}"));
            assert!(!text.contains(['>', '"']), "{name}: {text}");
            let word = tag.split(' ').next().unwrap();
            match word.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "{name}: {html}"),
                None if tag.ends_with('/') => {}
                None => open.push(word),
            }
        }
        assert!(open.is_empty(), "{name}: {html}");
    }
    let depth = text.lines().fold(0_i32, |d, l| d + i32::from(l.ends_with('{')) - i32::from(l.trim() == "}"));
    assert_eq!(depth, 0, "{name}");
}

/// A call that only computes goes if its result is not read; one that does something else stays,
/// also on a path on which it is all that happens.
#[test]
fn calls_whose_results_are_not_read() {
    let source = "function %f(f64, i64) -> f64 {
    fn0 = %cos(f64) -> f64
    fn1 = %rand() -> i32
    fn2 = %abort()
    fn3 = %memcmp(i64, i64, i64) -> i32
    fn4 = %memset(i64, i32, i64) -> i64
    fn5 = %putchar(i32) -> i32
block0(v0: f64, v1: i64):
    v2 = call fn0(v0)
    v3 = call fn1()
    v4 = iconst.i64 8
    v5 = call fn3(v1, v1, v4)
    v6 = call fn4(v1, v3, v4)
    v7 = fmul v0, v0
    brif v1, block1, block2
block1:
    v8 = call fn5(v3)
    call fn2()
    jump block2
block2:
    return v7
}";
    let (file, request) = parse(source);
    let text = dump(&file.program, &request, &Options::full(), Stage::ClifForward).unwrap_or_else(|e| panic!("{e}"));
    let called = |name: &str| text.contains(&format!("%{name}"));
    assert!(!called("cos") && !called("memcmp"), "{text}");
    assert!(["rand", "memset", "putchar", "abort"].into_iter().all(called), "{text}");
    assert!(text.contains("brif"), "{text}");
}

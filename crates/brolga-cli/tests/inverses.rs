//! `--inverse` and `--inverse-check`: calls that others undo.

use brolga_testing::command::TempFile;

/// A number to which the square of another is added, times a third.
const ADDED: &str = "\
function %advance(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = load.f64 v1
    v5 = fmul v2, v2
    v6 = fmul v4, v5
    v7 = fadd v3, v6
    store v7, v0+8
    return
}
function %retreat(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = load.f64 v1
    v5 = fmul v2, v2
    v6 = fmul v4, v5
    v7 = fsub v3, v6
    store v7, v0+8
    return
}
function %added(i64, i64, i64) {
    fn0 = %advance(i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 1
    jump block1(v2)
block1(v4: i64):
    brif v4, block2, block3
block2:
    call fn0(v0, v1)
    v5 = isub v4, v3
    jump block1(v5)
block3:
    return
}
";

#[test]
fn calls_that_others_undo() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "added.clif", ADDED);
    let call = ["--call", "%added([0.7, 2.0], [0.3], 20)", "--shadow", "0=[0.25, 1.0]", "--json"];
    let run = |more: &[&str]| file.run("grad", &[&call[..], more].concat());
    let plain = run(&[]).expect(0).json();
    assert!(plain[0]["inverses"].is_null(), "{plain:?}");
    for check in [&["--inverse-check", "1e-9"][..], &["--inverse-check", "off"], &["--inverse-check", "record"]] {
        let found = run(&[&["--inverse", "advance=retreat,0:16"], check].concat()).expect(0).json();
        assert_eq!((&found[0]["value"], &found[0]["buffers"]), (&plain[0]["value"], &plain[0]["buffers"]));
        let near = |i: usize, k: usize| {
            let [a, b] = [&found, &plain].map(|f| f[0]["gradient"][i][k].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-13 * b.abs(), "{a} {b}");
        };
        near(0, 0);
        near(0, 1);
        near(1, 0);
        let inverses = &found[0]["inverses"];
        assert_eq!((&inverses["calls"], &inverses["undone"]), (&20.into(), &20.into()), "{inverses}");
    }
    // Not all bits come back: the first number is none of a few digits.
    let inverse = ["--inverse", "%advance = %retreat, 0: 16"];
    run(&inverse).expect(1).says("inverse_pair").says("at byte 8 of the state").says("inverse_check");
    let exact = ["--call", "%added([0.5, 2.0], [0.5], 20)", "--shadow", "0=[0.25, 1.0]"];
    let text = file.run("grad", &[&exact[..], &inverse].concat()).expect(0).stdout;
    assert!(text.contains("20 calls, 20 undone") && text.contains("1 states kept"), "{text}");
    // Or derived.
    let derived = run(&["--inverse", "advance,0:16", "--inverse-check", "record"]).expect(0).json();
    assert_eq!(derived[0]["inverses"]["undone"], 20, "{derived:?}");
    let refused = |inverse: &str, status: i32, says: &str| {
        run(&["--inverse", inverse]).expect(status).says(says);
    };
    refused("advance=retreat", 2, "write f=f_inverse,0:24");
    refused("advance=retreat,0", 2, "write f=f_inverse,0:24");
    refused("added,0:16", 1, "no inverse of %added is found");
    refused("back,0:16", 1, "%back is no function of the program");
    refused("advance=back,0:16", 1, "%back is no function of the program");
    refused("advance=added,0:16", 1, "declare both alike");
    refused("advance=retreat,2:16", 1, "parameter 2 of (i64, i64) system_v is no pointer");
    refused("advance=retreat,0:0", 1, "the state at parameter 0 has no byte");
    refused("advance=retreat,0:v9", 1, "parameter 9 of (i64, i64) system_v is no length");
    refused("advance=retreat,0:16,0:8", 1, "two states overlap");
    run(&["--inverse", "advance=retreat,0:16", "--inverse", "advance=retreat,0:16"]).expect(1).says("say so once");
    run(&["--inverse-check", "much"]).expect(2).says("write off, bits, record");
}

//! Where address space is short, a call of a WebAssembly function is refused. In a process of its
//! own, since the limit is the process's.

#![cfg(target_os = "linux")]

use brolga::{Error, Options};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Memory, protocol, run};
use brolga_testing::child::alone;

#[test]
fn an_instance_that_does_not_fit_is_an_error() {
    alone(module_path!(), "an_instance_that_does_not_fit_is_an_error", || {
        let dir = std::env::temp_dir().join(format!("brolga-no-room-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        let path = dir.join("f.wat");
        let text = r#"(module (memory 1) (func (export "f") (param i32) (result f64) (f64.load (local.get 0))))"#;
        std::fs::write(&path, text).expect("a temporary file");
        let file = File::read(&path).expect("it is a module");
        std::fs::remove_dir_all(&dir).expect("it was there");
        let text = "%f([2.0])";
        let (call, clauses) = call_with_clauses(text).expect("it is a call");
        let call = file.bind(text, &call, &clauses).expect("it fits");
        let rule = protocol::derive(&file.program, &call.request(), &Options::full()).expect("it has a derivative");
        run::gradient(&rule, &call).expect("there is room yet");

        // An instance reserves 8 GiB and as much for its shadow. The rule keeps a tape of 8 GiB,
        // and the primal wants some space, too.
        let most = libc::rlimit { rlim_cur: 12 << 30, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the argument is a limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const most) }, 0);
        for error in
            [Memory::new(&call).err(), run::gradient(&rule, &call).err(), run::primal(&file.program, &call).err()]
        {
            let Some(Error::Usage(message)) = &error else { panic!("{error:?}") };
            assert!(message.starts_with("cannot reserve"), "{message}");
        }
        assert!(file.bind(text, &call_with_clauses(text).expect("it is a call").0, &clauses).is_err());
    });
}

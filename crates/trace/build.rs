//! Compiles the BPF program with clang. Without clang the crate is built without BPF and says so.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(bpf_program)");
    println!("cargo:rerun-if-changed=src/bpf/bursts.bpf.c");
    println!("cargo:rerun-if-env-changed=CLANG");
    let (Ok(include), Some(out)) = (
        std::env::var("DEP_BPF_INCLUDE"),
        std::env::var_os("OUT_DIR"),
    ) else {
        return; // built without the feature `bpf`
    };
    let object = PathBuf::from(out).join("bursts.bpf.o");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let compiled = Command::new(&clang)
        .args([
            "-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-I", &include,
        ])
        .args(["-c", "src/bpf/bursts.bpf.c", "-o"])
        .arg(&object)
        .status();
    match compiled {
        Ok(status) if status.success() => println!("cargo:rustc-cfg=bpf_program"),
        Ok(status) => panic!("{clang} could not compile src/bpf/bursts.bpf.c: {status}"),
        Err(error) => {
            println!("cargo:warning=built without BPF ({clang}: {error}); install clang for it");
        }
    }
}

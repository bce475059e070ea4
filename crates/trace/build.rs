//! Compiles the BPF programs with clang. Without clang it builds without BPF, with a warning.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(bpf_program)");
    println!("cargo:rerun-if-env-changed=CLANG");
    let (Ok(include), Some(out)) = (
        std::env::var("DEP_BPF_INCLUDE"),
        std::env::var_os("OUT_DIR"),
    ) else {
        return; // built without the feature `bpf`
    };
    for header in [
        "base.h",
        "switch.h",
        "wakeups.h",
        "blocks.h",
        "untraced.h",
        "waiting.h",
        "syncs.h",
    ] {
        println!("cargo:rerun-if-changed=src/bpf/{header}");
    }
    let out = PathBuf::from(out);
    let compiled = ["bursts", "blocks", "records", "runqueue", "syncs"]
        .map(|name| compile(name, &include, &out));
    if compiled == [true; 5] {
        println!("cargo:rustc-cfg=bpf_program");
    }
}

/// Compiles one program; false where there is no clang.
fn compile(name: &str, include: &str, out: &Path) -> bool {
    let source = format!("src/bpf/{name}.bpf.c");
    println!("cargo:rerun-if-changed={source}");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let compiled = Command::new(&clang)
        .args([
            "-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-I", include,
        ])
        .args(["-c", &source, "-o"])
        .arg(out.join(format!("{name}.bpf.o")))
        .status();
    match compiled {
        Ok(status) if status.success() => true,
        Ok(status) => panic!("{clang} could not compile {source}: {status}"),
        Err(error) => {
            println!("cargo:warning=built without BPF ({clang}: {error}); install clang for it");
            false
        }
    }
}

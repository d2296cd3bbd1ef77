#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_core::Wire;
use turnstream_fuzz::Framing;
use turnstream_ollama::Ollama;

fuzz_target!(|input: &[u8]| turnstream_fuzz::check(Framing::Lines, || Ollama::new("m").decoder(), input));

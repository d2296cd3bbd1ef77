#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_core::Wire;
use turnstream_cohere::Cohere;

fuzz_target!(|input: &[u8]| turnstream_fuzz::check(|| Cohere::new("m").decoder(), input));

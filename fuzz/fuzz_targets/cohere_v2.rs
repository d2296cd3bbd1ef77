#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_cohere::Cohere;
use turnstream_core::Wire;
use turnstream_fuzz::Framing;

fuzz_target!(|input: &[u8]| turnstream_fuzz::check(Framing::Events, || Cohere::new("m").decoder(), input));

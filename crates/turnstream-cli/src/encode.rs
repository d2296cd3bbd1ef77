//! `turnstream encode`: the HTTP request that would be sent.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use turnstream::{RawJson, wire::WireRequest};

use crate::{
    output::{note, printable_json, read_request, write_line},
    wires::Provider,
};

/// Print the HTTP request that would be sent for a request file. Nothing is sent; secrets are masked.
#[derive(Debug, Args)]
pub(crate) struct Encode {
    #[command(flatten)]
    provider: Provider,
    /// Print it as one JSON object: `method`, `url`, `headers`, `body`.
    #[arg(long)]
    json: bool,
    /// A request as JSON, or `-` for standard input.
    request: PathBuf,
}

impl Encode {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let wire = self.provider.build()?;
        let encoded = wire.encode(&read_request(&self.request)?)?;
        for warning in &encoded.warnings {
            note(&format!("warning: {}: {}", warning.setting, warning.message));
        }
        let mut out = io::stdout().lock();
        if self.json {
            print_json(&mut out, &encoded)?
        } else {
            print(&mut out, &encoded)?
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(out: &mut impl Write, request: &WireRequest) -> Result<()> {
    writeln!(out, "POST {}", request.masked_url())?;
    for (name, value) in headers(request) {
        writeln!(out, "{name}: {value}")?;
    }
    writeln!(out)?;
    match std::str::from_utf8(&request.body) {
        Ok(body) if io::stdout().is_terminal() => write!(out, "{}", printable_json(body))?,
        _ => out.write_all(&request.body)?,
    }
    Ok(writeln!(out)?)
}

fn print_json(out: &mut impl Write, request: &WireRequest) -> Result<()> {
    let body = RawJson::parse(std::str::from_utf8(&request.body)?)?;
    let headers: Vec<_> = headers(request).collect();
    // The body keeps its spelling, which a `json!` of the whole would not.
    let head = json!({ "method": "POST", "url": request.masked_url(), "headers": headers });
    let whole = RawJson::from(head).with_fields(&[("body", body)].into());
    write_line(out, &whole.context("a head is an object")?)
}

/// The headers, secrets masked.
fn headers(request: &WireRequest) -> impl Iterator<Item = (&str, &str)> {
    request.headers.iter().map(|(name, value)| {
        let value = if value.is_sensitive() { "***" } else { value.to_str().unwrap_or("(not text)") };
        (name.as_str(), value)
    })
}

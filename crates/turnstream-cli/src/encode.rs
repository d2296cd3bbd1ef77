//! `turnstream encode`: the HTTP request that would be sent.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use turnstream::{Request, wire::WireRequest};

use crate::wires::WireChoice;

/// Print the HTTP request that would be sent for a request file. Nothing is sent; secrets are masked.
#[derive(Debug, Args)]
pub(crate) struct Encode {
    #[command(flatten)]
    wire: WireChoice,
    /// The model to ask.
    #[arg(long, default_value = "model")]
    model: String,
    /// The address to ask, instead of the provider's own.
    #[arg(long)]
    base_url: Option<String>,
    /// A request as JSON, or `-` for standard input.
    request: PathBuf,
}

impl Encode {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let wire = self.wire.build_with_key(&self.model, self.base_url.as_deref())?;
        let text = read(&self.request)?;
        let request: Request = serde_json::from_str(&text).context("the file is not a request")?;
        let encoded = wire.encode(&request)?;
        for warning in &encoded.warnings {
            eprintln!("warning: {}: {}", warning.setting, warning.message);
        }
        print(&encoded)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn print(request: &WireRequest) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "POST {}", request.masked_url())?;
    for (name, value) in &request.headers {
        let value = if value.is_sensitive() { "***" } else { value.to_str().unwrap_or("(not text)") };
        writeln!(out, "{name}: {value}")?;
    }
    writeln!(out)?;
    out.write_all(&request.body)?;
    Ok(writeln!(out)?)
}

fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

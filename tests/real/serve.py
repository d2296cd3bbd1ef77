#!/usr/bin/env python3
"""Serves a small model with llama.cpp's own HTTP server on a free port of 127.0.0.1.

usage: serve.py MODEL.gguf CHAT_TEMPLATE     prints the base address when it listens; ends on SIGKILL
"""
import pathlib
import socket
import sys
import time

import xllamacpp

model, template = sys.argv[1:]
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]

params = xllamacpp.CommonParams()
params.model.path = model
params.port = port
if hasattr(params, "hostnames"):
    params.hostnames = ["127.0.0.1"]
else:
    params.hostname = "127.0.0.1"
params.n_ctx = 4096
params.n_parallel = 2
params.use_jinja = True
params.cpuparams.n_threads = 1  # more threads spin at barriers on a shared machine
params.model_alias = "smol" if isinstance(params.model_alias, str) else {"smol"}
params.chat_template = pathlib.Path(template).read_text()
params.endpoint_slots = True  # GET /slots shows that a dropped stream has freed its slot
server = xllamacpp.Server(params)
print(f"LISTENING {server.listening_address}", flush=True)
while True:
    time.sleep(3600)

#!/usr/bin/env python3
"""Prints the request that follows a turn: its calls, and a result for each.

usage: answer.py REQUEST.json EVENTS.jsonl
"""
import json
import pathlib
import sys

request, events = sys.argv[1:]
request = json.loads(pathlib.Path(request).read_text())
events = [json.loads(line) for line in pathlib.Path(events).read_text().splitlines()]
calls = [event for event in events if event["type"] == "call_finished"]
assert len(calls) == 2, "the turn makes two calls"
said = [{"type": "call", "id": call["id"], "name": call["name"], "arguments": call["arguments"]} for call in calls]
results = [
    {"type": "result", "call_id": call["id"], "name": call["name"], "content": [{"text": text}]}
    for call, text in zip(calls, ["sunny, 21 degrees", "sunny, 70 degrees"])
]
request["messages"] += [{"role": "assistant", "parts": said}, {"role": "user", "parts": results}]
request["tool_choice"] = "none"
request["max_tokens"] = 60
json.dump(request, sys.stdout)

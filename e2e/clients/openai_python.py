"""A scripted conversation held by the realtime client of the openai package for Python:

    python openai_python.py SCENARIO BASE_URL MODEL

BASE_URL is what the SDK calls base_url. One line of JSON on standard output says what the client saw, in the form that
record.mjs gives to it; the Go tests judge it.
"""

import asyncio
import base64
import hashlib
import json
import math
import struct
import sys

from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosed

STEP_TIMEOUT = 20  # seconds
PCM_RATE = 24_000
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Client:
    """One connection, and what it saw. `events` yields events as the SDK does, through a reconnect if it makes one."""

    def __init__(self, connection, report):
        self.connection = connection
        self.report = report
        self.events = aiter(connection)

    async def until(self, kind):
        """Consume events up to and including the next one of a kind."""
        events = []
        while not events or events[-1]["type"] != kind:
            events.append(await self.next())
        return events

    async def next(self):
        # Iteration hides the codes 1000 and 1001 and is what reconnects; recv raises them all.
        source = anext(self.events) if self.report["resuming"] else self.connection.recv()
        event = (await asyncio.wait_for(source, STEP_TIMEOUT)).to_dict()
        if event["type"] == "error":
            self.report["story"].append(f"error {event['error'].get('code')}")
        return event

    def step(self, name, events):
        """Note what a step brought; of an answer that was cut, only that it had begun."""
        audio = b"".join(base64.b64decode(e["delta"]) for e in events if e["type"] == "response.output_audio.delta")
        done = [e["response"] for e in events if e["type"] == "response.done"]
        status = done[-1]["status"] if done else ""
        if status == "cancelled":
            reason = done[-1]["status_details"]["reason"]
            self.report["steps"].append({"name": name, "status": status, "reason": reason, "heard": bool(audio)})
            return
        words = (e["delta"] for e in events if e["type"] == "response.output_audio_transcript.delta")
        calls = (e for e in events if e["type"] == "response.function_call_arguments.done")
        self.report["steps"].append(
            {
                "name": name,
                "status": status,
                "events": [e["type"] for e in events],
                "heard": bool(audio),
                "audio": hashlib.sha256(audio).hexdigest(),
                "transcript": "".join(words),
                "calls": [f"{call['name']} {call['arguments']}" for call in calls],
                "usage": done[-1]["usage"] if done else None,
            }
        )

    async def configure(self, name):
        await self.connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Answer in one sentence.",
                "output_modalities": ["audio"],
                "tools": [WEATHER],
            }
        )
        self.step(name, await self.until("session.updated"))

    async def say(self, text):
        content = [{"type": "input_text", "text": text}]
        await self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await self.connection.response.create()

    async def append(self, pcm):
        await self.connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())


async def talk(client):
    connection = client.connection
    for chunk in range(10):
        await client.append(tone(20, chunk))
        await asyncio.sleep(0.02)
    for _ in range(6):
        await client.append(bytes(2 * PCM_RATE // 10))
    client.step("server-vad", await client.until("response.done"))

    await connection.session.update(session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    await client.append(tone(200, 11))
    await connection.input_audio_buffer.commit()
    await connection.response.create()
    client.step("manual", await client.until("response.done"))

    await client.say("Please use get_weather.")
    asked = await client.until("response.done")
    client.step("function-call", asked)
    call = next(item for item in asked[-1]["response"]["output"] if item["type"] == "function_call")
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    await connection.conversation.item.create(item=output)
    await connection.response.create()
    client.step("function-output", await client.until("response.done"))

    await client.say("Tell me everything.")
    begun = await client.until("response.output_audio.delta")
    await connection.response.cancel()
    client.step("cancel", begun + await client.until("response.done"))

    item = begun[-1]["item_id"]
    await connection.conversation.item.truncate(item_id=item, content_index=0, audio_end_ms=50)
    client.step("truncate", await client.until("conversation.item.truncated"))


async def turn(client):
    await client.say("Are you there?")
    client.step("turn", await client.until("response.done"))


async def resume(client):
    """Ask, be cut off, and ask again on the session that the SDK opens in its place."""
    await client.say("Are you there?")
    await client.until("session.created")
    await client.configure("open again")
    await turn(client)


def tone(ms, seed):
    """Make one stretch of 16-bit PCM, the same as record.mjs does."""
    samples = PCM_RATE * ms // 1000
    return struct.pack(f"<{samples}h", *(1 + round(8000 * abs(math.sin(i * (seed + 1) * 0.05))) for i in range(samples)))


async def run(scenario, base_url, model, report):
    def reconnecting(event):
        report["story"].append(f"reconnecting {event.close_code}")

    recovery = {"on_reconnecting": reconnecting, "initial_delay": 0.05} if report["resuming"] else {}
    openai = AsyncOpenAI(base_url=base_url, api_key="sk-test-e2e-client")
    async with openai.realtime.connect(model=model, **recovery) as connection:
        client = Client(connection, report)
        try:
            await client.configure("open")
            await {"talk": talk, "turn": turn, "resume": resume}[scenario](client)
            await connection.close()
            await connection.recv()
        except ConnectionClosed as closed:
            code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
            report["story"].append(f"close {code} {reason}".strip())


def main():
    scenario, base_url, model = sys.argv[1:]
    report = {"steps": [], "story": [], "failure": "", "resuming": scenario == "resume"}
    try:
        asyncio.run(run(scenario, base_url, model, report))
    except TimeoutError:
        sys.exit(f"timed out: {json.dumps(report)}")
    except Exception as error:  # whatever the SDK reports is what the client saw
        report["failure"] = str(error)
    print(json.dumps(report))


main()

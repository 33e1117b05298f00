// What the scripts of the JavaScript clients share: the events as they come, waits that end, and the report.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const STEP_TIMEOUT_MS = 20_000;
const PCM_RATE = 24_000;

// Ended is thrown by a wait for an event that can no longer come.
export class Ended extends Error {}

// Record holds what one client saw. `story` is what its SDK reported beside the events, in order.
export class Record {
  pool = ''; // of the answer to the upgrade, where the client can read it
  session = '';
  steps = [];
  story = [];
  failure = '';
  #inbox = [];
  #over = false;
  #wake = () => {};

  take(event) {
    this.#inbox.push(event);
    this.#wake();
  }

  tell(line) {
    this.story.push(line.trim());
  }

  end() {
    this.#over = true;
    this.#wake();
  }

  // until consumes events up to and including the next one of a type.
  async until(type) {
    const events = [];
    for (const deadline = Date.now() + STEP_TIMEOUT_MS; events.at(-1)?.type !== type; ) {
      if (this.#inbox.length > 0) {
        events.push(this.#inbox.shift());
      } else if (this.#over) {
        throw new Ended(`the connection ended before ${type}`);
      } else {
        await this.#news(type, deadline);
      }
    }
    return events;
  }

  // ended waits for the end of the connection.
  async ended() {
    for (const deadline = Date.now() + STEP_TIMEOUT_MS; !this.#over; ) {
      await this.#news('the end', deadline);
    }
  }

  #news(what, deadline) {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`timed out waiting for ${what}: ${JSON.stringify(this.story)}`));
      const timer = setTimeout(late, deadline - Date.now());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  // step notes what a step of the script brought. Where an answer was cut depends on time, so of one that was only
  // that it had begun.
  step(name, events) {
    const of = (type) => events.filter((event) => event.type === type);
    const audio = Buffer.concat(of('response.output_audio.delta').map(({ delta }) => Buffer.from(delta, 'base64')));
    const response = of('response.done').at(-1)?.response;
    const status = response?.status ?? '';
    if (status === 'cancelled') {
      this.steps.push({ name, status, reason: response.status_details.reason, heard: audio.length > 0 });
      return;
    }
    this.steps.push({
      name,
      status,
      events: events.map(({ type }) => type).filter((type) => type !== 'conversation.item.retrieved'), // asked for by an SDK, at its own time
      heard: audio.length > 0,
      audio: createHash('sha256').update(audio).digest('hex'),
      transcript: of('response.output_audio_transcript.delta').map(({ delta }) => delta).join(''),
      calls: of('response.function_call_arguments.done').map((call) => `${call.name} ${call.arguments}`),
      usage: response?.usage ?? null,
    });
  }

  // of runs a script, prints its report on one line and ends the process. `run` may reject with what the SDK reports.
  static async of(run) {
    const record = new Record();
    try {
      await run(record);
    } catch (error) {
      if (!(error instanceof Ended)) record.failure = `${error.message || error.error?.message || error.name}`;
    }
    process.stdout.write(`${JSON.stringify(record)}\n`, () => process.exit(record.failure.startsWith('timed out') ? 1 : 0));
  }
}

// tone is one stretch of 16-bit PCM, different for each seed.
export function tone(ms, seed) {
  const samples = (PCM_RATE * ms) / 1000;
  const pcm = Buffer.alloc(2 * samples);
  for (let i = 0; i < samples; i++) {
    pcm.writeInt16LE(1 + Math.round(8000 * Math.abs(Math.sin(i * (seed + 1) * 0.05))), 2 * i);
  }
  return pcm;
}

// utterance sends speech at the pace of a microphone, then the silence that ends a turn.
export async function utterance(send) {
  for (let chunk = 0; chunk < 10; chunk++) {
    send(tone(20, chunk));
    await sleep(20);
  }
  for (let chunk = 0; chunk < 6; chunk++) {
    send(Buffer.alloc((2 * PCM_RATE) / 10));
  }
}

// A scripted voice conversation held by the openai package's own realtime client, as an application would hold it:
//
//   node conversation.mjs BASE_URL MODEL
//
// BASE_URL is what the SDK calls baseURL, http://HOST:PORT/v1. One line of JSON on standard output says what the client
// saw; the Go test judges it. A failure that the SDK reports, such as a refused handshake, is part of what it saw and
// stands in `error`. The exit status is 1 only if the conversation stops moving.
import { createHash } from 'node:crypto';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

const TURNS = 2;
const CHUNK_MS = 20;
const CHUNKS = 10;
const PCM_RATE = 24_000;
const STEP_TIMEOUT_MS = 15_000;

const [baseURL, model] = process.argv.slice(2);
const report = { turns: [] };

// The SDK turns every base URL into wss://. A sidecar on loopback listens without TLS, so the one thing a client has to
// change is how the socket is made; headers, paths and frames are the SDK's own.
const createConnection = ({ host, port }) => net.connect({ host, port });
const client = new OpenAI({ baseURL, apiKey: 'sk-test-e2e-client' });
const realtime = new OpenAIRealtimeWS({ model, options: { createConnection } }, client);

const inbox = [];
let wake = () => {};
const failed = new Promise((_, reject) => realtime.on('error', reject));
failed.catch(() => {});
const closed = new Promise((resolve) => realtime.socket.on('close', (code, reason) => resolve({ code, reason: `${reason}` })));

realtime.on('event', (event) => {
  inbox.push(event);
  wake();
});
realtime.socket.on('upgrade', ({ headers }) => {
  report.pool = headers['rtd-pool'] ?? '';
  report.session = headers['rtd-session-id'] ?? '';
});
// Sent before session.created is in hand: whatever is ahead in the stream, order has to hold.
realtime.socket.on('open', () => {
  realtime.send({
    type: 'session.update',
    session: { type: 'realtime', instructions: 'Answer in one sentence.', output_modalities: ['audio'] },
  });
});

try {
  report.opening = (await until('session.updated')).map(({ type }) => type);
  for (let turn = 0; turn < TURNS; turn++) {
    report.turns.push(await speak(turn));
  }
  realtime.close();
  report.close = await within('the close', closed);
} catch (error) {
  report.error = error.message;
}
console.log(JSON.stringify(report));
process.exit(report.error?.startsWith('timed out') ? 1 : 0);

// speak streams one utterance at the pace of a microphone, asks for an answer and listens to all of it.
async function speak(turn) {
  for (let chunk = 0; chunk < CHUNKS; chunk++) {
    realtime.send({ type: 'input_audio_buffer.append', audio: tone(turn, chunk) });
    await sleep(CHUNK_MS);
  }
  realtime.send({ type: 'input_audio_buffer.commit' });
  realtime.send({ type: 'response.create' });

  const events = await until('response.done');
  const deltas = (type) => events.filter((event) => event.type === type).map(({ delta }) => delta);
  const audio = Buffer.concat(deltas('response.output_audio.delta').map((delta) => Buffer.from(delta, 'base64')));
  const { response } = events.at(-1);
  return {
    events: events.map(({ type }) => type),
    audioBytes: audio.length,
    audioSHA256: createHash('sha256').update(audio).digest('hex'),
    transcript: deltas('response.output_audio_transcript.delta').join(''),
    status: response.status,
    usage: response.usage,
  };
}

// until consumes events up to and including the next one of a type.
async function until(type) {
  const events = [];
  while (events.at(-1)?.type !== type) {
    if (inbox.length === 0) {
      await within(type, new Promise((resolve) => (wake = resolve)));
    }
    events.push(...inbox.splice(0, 1));
  }
  return events;
}

// within waits for a step, an error of the SDK or the end of the connection, whichever is first, and never for ever.
async function within(step, promise) {
  const stop = new AbortController();
  const early = closed.then(({ code, reason }) => {
    if (step !== 'the close') throw new Error(`closed with ${code} ${reason} before ${step}`);
    return promise;
  });
  const late = sleep(STEP_TIMEOUT_MS, undefined, { signal: stop.signal }).then(() => {
    throw new Error(`timed out waiting for ${step}`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([promise, failed, early, late]);
  } finally {
    stop.abort();
  }
}

// tone makes one chunk of 16-bit PCM whose bytes tell turns and chunks apart.
function tone(turn, chunk) {
  const samples = (PCM_RATE * CHUNK_MS) / 1000;
  const pcm = Buffer.alloc(2 * samples);
  for (let i = 0; i < samples; i++) {
    pcm.writeInt16LE(Math.round(8000 * Math.sin((i + chunk * samples) * (turn + 1) * 0.05)), 2 * i);
  }
  return pcm.toString('base64');
}

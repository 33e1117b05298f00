// A scripted conversation held by one of the two realtime classes of the openai package:
//
//   node openai.mjs CLASS SCENARIO BASE_URL MODEL
//
// BASE_URL is what the SDK calls baseURL. See record.mjs for the report; the Go tests judge it.
import net from 'node:net';
import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { Record, tone, utterance } from './record.mjs';

const [className, scenario, baseURL, model] = process.argv.slice(2);
const reconnect = scenario === 'resume';
const scenarios = { talk, turn, resume };

await Record.of(async (record) => {
  const realtime = open();
  listen(realtime, record);
  await record.until('session.updated').then((events) => record.step('open', events), refused(record));
  await scenarios[scenario](realtime, record);
  realtime.close();
  await record.ended();
});

function open() {
  const client = new OpenAI({ baseURL, apiKey: 'sk-test-e2e-client' });
  const props = { model, reconnect, reconnectInitialDelay: 50 };
  if (className === 'OpenAIRealtimeWebSocket') {
    return new OpenAIRealtimeWebSocket(props, client);
  }
  // The SDK turns every base URL into wss://. A sidecar on loopback listens without TLS, so the one thing a client has to
  // change is how the socket is made; headers, paths and frames are the SDK's own.
  const createConnection = ({ host, port }) => net.connect({ host, port });
  return new OpenAIRealtimeWS({ ...props, options: { createConnection } }, client);
}

function listen(realtime, record) {
  realtime.socket.on?.('upgrade', ({ headers }) => {
    record.pool = headers['rtd-pool'] ?? '';
    record.session = headers['rtd-session-id'] ?? '';
  });
  realtime.on('event', (event) => record.take(event));
  realtime.on('error', (error) => {
    record.tell(`error ${error.error?.code ?? error.message}`);
    if (record.steps.length === 0) record.end(); // the WebSocket of Node reports no close of what never opened
  });
  // Both kinds of socket are EventTargets. Sent before session.created is in hand: order has to hold.
  realtime.socket.addEventListener('open', () => configure(realtime));
  realtime.socket.addEventListener('close', ({ code, reason }) => {
    record.tell(`close ${code} ${reason}`);
    if (!reconnect) record.end();
  });
  if (!reconnect) return;
  realtime.on('reconnecting', ({ closeCode }) => record.tell(`reconnecting ${closeCode}`));
  realtime.on('reconnected', () => record.take({ type: 'reconnected' }));
  realtime.on('close', (code, reason) => {
    record.tell(`close ${code} ${reason}`);
    record.end();
  });
}

// refused makes a handshake that failed the run's failure, as the SDK words it.
function refused(record) {
  return (ended) => {
    throw new Error(record.story.find((line) => line.startsWith('error ')) ?? ended.message);
  };
}

function configure(realtime) {
  realtime.send({
    type: 'session.update',
    session: {
      type: 'realtime',
      instructions: 'Answer in one sentence.',
      output_modalities: ['audio'],
      tools: [
        {
          type: 'function',
          name: 'get_weather',
          description: 'The weather of a city.',
          parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
        },
      ],
    },
  });
}

async function talk(realtime, record) {
  const send = (event) => realtime.send(event);
  const append = (pcm) => send({ type: 'input_audio_buffer.append', audio: pcm.toString('base64') });

  await utterance(append);
  record.step('server-vad', await record.until('response.done'));

  const input = { turn_detection: null };
  send({ type: 'session.update', session: { type: 'realtime', audio: { input } } });
  append(tone(200, 11));
  send({ type: 'input_audio_buffer.commit' });
  send({ type: 'response.create' });
  record.step('manual', await record.until('response.done'));

  say(realtime, 'Please use get_weather.');
  const asked = await record.until('response.done');
  record.step('function-call', asked);
  const call = asked.at(-1).response.output.find(({ type }) => type === 'function_call');
  send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: call.call_id, output: 'sunny' } });
  send({ type: 'response.create' });
  record.step('function-output', await record.until('response.done'));

  say(realtime, 'Tell me everything.');
  const begun = await record.until('response.output_audio.delta');
  send({ type: 'response.cancel' });
  record.step('cancel', [...begun, ...(await record.until('response.done'))]);

  send({ type: 'conversation.item.truncate', item_id: begun.at(-1).item_id, content_index: 0, audio_end_ms: 50 });
  record.step('truncate', await record.until('conversation.item.truncated'));
}

async function turn(realtime, record) {
  say(realtime, 'Are you there?');
  record.step('turn', await record.until('response.done'));
}

// resume asks, is cut off, and asks again on the session that the SDK opens in its place.
async function resume(realtime, record) {
  say(realtime, 'Are you there?');
  await record.until('reconnected');
  configure(realtime);
  record.step('open again', await record.until('session.updated'));
  await turn(realtime, record);
}

function say(realtime, text) {
  realtime.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] } });
  realtime.send({ type: 'response.create' });
}

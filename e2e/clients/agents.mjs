// A scripted conversation held by a RealtimeSession of @openai/agents-realtime over its WebSocket transport:
//
//   node agents.mjs SCENARIO BASE_URL MODEL
//
// BASE_URL is http://HOST:PORT/v1. See record.mjs for the report; the Go tests judge it.
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';
import { Record, utterance } from './record.mjs';

const [scenario, baseURL, model] = process.argv.slice(2);
const url = `${baseURL.replace(/^http/, 'ws')}/realtime?model=${encodeURIComponent(model)}`;
const scenarios = { talk, turn, resume };

await Record.of(async (record) => {
  const session = open(record);
  await connect(session, record, 'open');
  await scenarios[scenario](session, record);
  session.close();
  await record.ended();
});

function open(record) {
  const weather = tool({
    name: 'get_weather',
    description: 'The weather of a city.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      record.tell(`tool ${city}`);
      return 'sunny';
    },
  });
  const agent = new RealtimeAgent({ name: 'Assistant', instructions: 'Answer in one sentence.', tools: [weather] });
  const session = new RealtimeSession(agent, {
    transport: new OpenAIRealtimeWebSocket({ url }),
    model,
    tracingDisabled: true,
    config: { audio: { input: { turnDetection: { type: 'server_vad' } } } },
  });
  session.on('transport_event', (event) => {
    if (event.type !== 'connection_change') record.take(event);
  });
  session.on('error', ({ error }) => record.tell(`error ${error.error?.code ?? error.error?.error?.code ?? error.message}`));
  return session;
}

// connect opens a connection and listens to its socket, since the SDK keeps codes and reasons to itself.
async function connect(session, record, name) {
  await session.connect({ apiKey: 'sk-test-e2e-client' });
  session.transport.connectionState.websocket.addEventListener('close', ({ code, reason }) => {
    record.tell(`close ${code} ${reason}`);
    if (scenario === 'resume' && name === 'open') record.take({ type: 'cut off' });
    else record.end();
  });
  record.step(name, await record.until('session.updated'));
}

async function talk(session, record) {
  await utterance((pcm) => session.sendAudio(pcm.buffer.slice(pcm.byteOffset, pcm.byteOffset + pcm.byteLength)));
  record.step('server-vad', await record.until('response.done'));

  session.sendMessage('Please use get_weather.'); // the SDK runs the function and asks for the second answer
  record.step('function-call', await record.until('response.done'));
  record.step('function-output', await record.until('response.done'));

  session.sendMessage('Tell me everything.');
  const begun = await record.until('response.output_audio.delta');
  session.interrupt(); // a response.cancel and a conversation.item.truncate
  record.step('cancel', [...begun, ...(await record.until('response.done'))]);
  record.step('truncate', await record.until('conversation.item.truncated'));
}

async function turn(session, record) {
  session.sendMessage('Are you there?');
  record.step('turn', await record.until('response.done'));
}

// resume asks, is cut off, connects once more as an application of this SDK has to, and asks again.
async function resume(session, record) {
  session.sendMessage('Are you there?');
  await record.until('cut off');
  await connect(session, record, 'open again');
  await turn(session, record);
}

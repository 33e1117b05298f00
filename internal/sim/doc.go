// Package sim is a scripted upstream: a server that speaks the OpenAI Realtime dialect without a model behind it, for
// demonstrations, benchmarks and tests.
//
// It guarantees that what it answers depends on nothing but its configuration and the messages it is sent: the same
// conversation gives the same events, with the same texts, audio and token counts. Only identifiers and times differ. It
// holds its peer to RFC 6455: a frame that breaks the framing is counted and ends the connection with 1002. It never
// shows a credential, only a fingerprint of it.
//
// The caller owes Close, which ends every session and waits until all of them have ended.
package sim

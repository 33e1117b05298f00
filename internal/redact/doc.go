// Package redact keeps secrets out of logs, Close reasons and whatever else leaves the process as text.
//
// A Redactor replaces with "[redacted]" every registered secret, and everything that has the shape of a credential: API
// keys (sk-…), client secrets (ek_…), Bearer tokens, keys in subprotocols, api-key headers, and query parameters whose
// name sounds like a key, token or secret. It finds them also where the text is percent-encoded (twice, at most) or
// holds the backslash escapes of JSON and of Go's quoting. Text without secrets is returned as it is.
//
// A secret that is the business of one client is hidden for as long as that client is there (Hide): it is found by its
// digests and not kept. String and Bytes take it out; a Writer does not, since the client chose it and must not choose
// what a log says: its owner redacts the values of a line before the line is rendered.
//
// The caller registers every configured secret before text that may hold it is redacted, and redacts before it cuts:
// half a secret is not recognized. A registered secret shorter than MinSecret bytes is not replaced, as it would be found
// everywhere; to be hidden it takes 16 bytes and the letters of a key. None can be that is itself part of "[redacted]".
package redact

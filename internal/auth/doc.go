// Package auth says who a client is and what it may do.
//
// It guarantees that a client key is known by its SHA-256 alone and compared in constant time, that the limits of a key
// hold across reloads of the configuration, that a token of its own making is taken only while its signature, its key,
// its time, its model, its origin and its number of uses all agree, and that none of its errors holds a credential. What
// it remembers is bounded by the number of keys, those included that are gone but have sessions open or connects to make
// up for, and for tokens by a fixed number of those in use.
//
// The caller releases every Grant and passes the time, so that one request is judged at one moment.
package auth

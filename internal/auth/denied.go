package auth

import (
	"fmt"
	"time"
)

// Reason is why a client is not let in.
type Reason uint8

// The reasons.
const (
	ReasonNoCredential  Reason = iota // none was presented where one is asked for
	ReasonUnknownKey                  // it is no key of the gateway
	ReasonKeyExpired                  // its key has ended
	ReasonTokenInvalid                // the token was not made by this gateway for one of its keys
	ReasonTokenExpired                // the token has ended
	ReasonTokenUsed                   // the token has opened all the sessions it was good for
	ReasonTokenUnusable               // a token cannot do this: mint another
	ReasonTokenLoad                   // too many tokens are in use
	ReasonModel                       // the key or the token is not for this model
	ReasonPreset                      // the token is for another preset
	ReasonOrigin                      // the token is for another origin
	ReasonRate                        // the key connects too fast
	ReasonSessions                    // the key has all its sessions open
	ReasonMint                        // what is asked of a new token cannot be granted; Detail says what can
)

var reasonTexts = [...]string{
	"no credential", "unknown key", "the key has expired", "the token is not valid here", "the token has expired",
	"the token is used up", "a token cannot do this", "too many tokens are in use", "the model is not allowed",
	"the token is for another preset", "the token is for another origin", "connects too fast", "too many sessions", "cannot mint this token",
}

// DeniedError is a client that is not let in.
type DeniedError struct {
	Reason Reason
	// Key is the name of the client's key, for operators; "" when it is not known.
	Key string
	// Detail says more, for the client's eyes too; holds no credential.
	Detail string
	// RetryAfter is when to try again; 0: never, or unknown.
	RetryAfter time.Duration
}

// Error is for the log.
func (e *DeniedError) Error() string {
	text := reasonTexts[e.Reason]
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Key != "" {
		return fmt.Sprintf("client key %q: %s", e.Key, text)
	}
	return text
}

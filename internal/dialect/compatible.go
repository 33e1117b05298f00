package dialect

import "time"

// The compatible dialect is OpenAI's, as vLLM, LocalAI, speaches and others speak it at an address of the operator's.
// Their sessions have no known age limit.
func init() {
	register(&openAI{
		name:     "compatible",
		defaults: Defaults{MaxIdle: 2 * time.Minute, MinRemaining: time.Minute},
	})
}

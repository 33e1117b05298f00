// Package e2e holds real SDK clients against real processes: its tests start rtd and the scripted upstream as an operator
// would, and let the providers' own packages talk through them. They need npm and are run by `make e2e`; a plain
// `go test ./...` skips them.
package e2e

// Package rtdv1 is version 1 of the protocol between the daemon and its control
// clients: messages and gRPC services, generated from the .proto files beside it.
//
// RPC names are unique in the package. Within version 1 fields and values are
// only added. Durations run from the moment of the answer, so no reader needs
// the daemon's clock. Package client is the face to use from Go.
package rtdv1

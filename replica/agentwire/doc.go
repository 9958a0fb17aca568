// Package agentwire is the protocol between agents and servers, generated from agent.proto by protoc with protoc-gen-go and
// protoc-gen-go-grpc.
package agentwire

// Protocol is the version of the protocol that this version of Sluice speaks.
const Protocol = 1

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative agent.proto

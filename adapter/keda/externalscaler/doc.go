// Package externalscaler is the code of KEDA's external scaler protocol, generated from
// externalscaler.proto by protoc with protoc-gen-go and protoc-gen-go-grpc.
package externalscaler

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative externalscaler.proto

// Etcd stores the objects of the end-to-end tests' API server. It is a module of its own so that
// etcd's dependencies conflict neither with the product's nor with those of Kubernetes.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }

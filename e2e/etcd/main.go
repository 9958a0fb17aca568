// Etcd is what the API server of the end-to-end tests keeps its objects in. It is a module of its
// own so that its dependencies meet neither the product's nor Kubernetes'.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }

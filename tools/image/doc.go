// Image writes a container image without a daemon: one layer with the static binary, the licences
// and an empty data folder; a configuration; and an index of the platforms. The result is a tar
// that is an OCI image layout and that "docker load" reads, too.
//
//	go run ./image -version V -commit C -created UNIXTIME -document FILE -out FILE linux/amd64=BINARY linux/arm64=BINARY
//
// The same input makes the same bytes: every time in the image is -created. "make image" builds the
// binaries first. Image builds and pushes nothing, and runs no binary.
package main

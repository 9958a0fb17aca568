// Image writes an OCI image from scratch, without a daemon: a layer that holds the static binary, the licence and an empty
// data folder, a configuration, and an index over the platforms, in one tar that is an OCI image layout and that "docker
// load" reads too; and beside it, for each platform, a list of what the binary was built of (SPDX 2.3).
//
//	go run ./image -version V -commit C -created UNIXTIME -out DIR -license FILE linux/amd64=BINARY linux/arm64=BINARY
//
// The binaries are built before it ("make image"). It writes the same bytes for the same input: every time in the image is
// -created. It neither builds nor pushes anything, and never runs what it packs.
package main

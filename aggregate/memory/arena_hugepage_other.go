//go:build !race && !linux

package memory

func adviseHugePages([]byte) {}

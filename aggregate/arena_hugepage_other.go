//go:build !race && !linux

package aggregate

func adviseHugePages([]byte) {}

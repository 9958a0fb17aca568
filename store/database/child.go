package database

import "os"

// The environment variables that make a child of this program a probe or a storage process, and
// name its folder.
const (
	probeEnv    = "SLUICE_STORE_TRIAL"
	readOnlyEnv = "SLUICE_STORE_TRIAL_READ_ONLY" // beside probeEnv: the folder is the database itself, so write nothing
	processEnv  = "SLUICE_STORE_DATABASE"
)

// hasChildMain says that this program's main calls ChildMain; without that a child would be a
// second server.
var hasChildMain bool

// ChildMain runs the probe or the storage process if this process was started as one, and returns
// its exit code. In any other process it does nothing. Main calls it first.
func ChildMain() (code int, isChild bool) {
	if dir := os.Getenv(probeEnv); dir != "" {
		return probeMain(dir), true
	}
	if dir := os.Getenv(processEnv); dir != "" {
		return processMain(dir, pollable(0, "transactions"), os.Stdout), true
	}
	hasChildMain = true
	return 0, false
}

// DefaultPlace is StorageProcess where the program calls ChildMain, else InProcess.
func DefaultPlace() Place {
	if hasChildMain {
		return StorageProcess
	}
	return InProcess
}

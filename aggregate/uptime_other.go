//go:build !linux

package aggregate

// machineUptime does not tell boots apart on this system: the wall clock says how long an outage was.
func machineUptime() uptime { return uptime{} }

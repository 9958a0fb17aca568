// Package mutualtls secures connections whose two ends show certificates (between replicas, and of KEDA's
// operator), and those of agents, which show a token instead. It comes after the configuration, and before
// the packages that listen or connect. It reads changed files again, and never requests a certificate from
// anybody.
package mutualtls

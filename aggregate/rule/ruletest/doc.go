// Package ruletest has rules for tests, and writes files of rules.
package ruletest

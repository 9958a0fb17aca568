// Package credential authenticates HTTP senders and looks up their rights. Bearer tokens are
// checked by the cluster's API server (TokenReview), passwords against a file (bcrypt), and client
// certificates name their user. Rights beyond the principal's own namespace are granted by the API
// server (SubjectAccessReview), for all three kinds of principals.
//
// Before it stands receiver/push, which takes the credential from a request; after it the API
// server, behind Authority. Package identity decides what a principal may do with its rights
// (metric.Rights).
//
// Answers of the API server, good or bad, are cached for 10 s at most, so a revoked token or right
// works no longer than that; Kubernetes' own servers cache them as long. Password comparisons are
// cached for 30 s, or until the file changes. Requests to the API server are limited, in total and
// per address. Known credentials do not wait behind unknown ones, which anyone can make up.
//
// The review of tokens, and the pod of a bound token:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/ and
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/.
//
// The package never reads a request, and never keeps a credential: only hashes of it, with a key of
// the process.
package credential

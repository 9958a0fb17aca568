// Package keda serves KEDA's external scaler protocol, for triggers of type external and
// external-push (docs/adr/0059). It follows the table, whose values it reads, and precedes nothing:
// KEDA's operator asks it over gRPC.
//
// It never computes a value, reads another namespace than the ScaledObject's, or says "inactive"
// about something that it does not know.
//
// # Facts of the operator
//
// They were read in KEDA 2.21, and each has a test; e2e/keda runs the operator itself.
//
//   - It prefixes a metric's name with "s<i>-" and rewrites "/", so names are made of [a-z0-9-.].
//   - Any error makes it forget what it knows of the ScaledObject, and may end the stream of
//     another trigger. So the specification of a metric never depends on its value.
//   - It logs an error of a specification, and shows one of a value in an Event. So wrong metadata is
//     an error of the value.
//   - It ignores a false on the stream, and drops a true that comes before it has written its own
//     status, or while its cache still has the last replica. So a true is repeated while the trigger
//     is active.
//   - Its calls have no deadline, and hold the lock that its pushes need. So an answer takes a second
//     at most.
//   - It opens a stream again 2 s after one that ended well, and after twice the last wait, up to a
//     minute, after an error. So streams end well, and wait for the start of the process.
//   - It adds up the values of one answer, so there is exactly one.
package keda

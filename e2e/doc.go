// Package e2e holds scripted conversations through the real rtd and rtctl with the clients that applications use: both realtime
// classes of openai for Node, @openai/agents-realtime, and openai for Python. The scripts in clients/ drive an SDK and report
// what it saw; the tests judge the reports. They need the packages that package-lock.json and requirements.txt pin, so they run
// under `make e2e` only; elsewhere every test of the package is skipped.
package e2e

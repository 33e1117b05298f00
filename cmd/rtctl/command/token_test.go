package command

import "testing"

func TestTokenScreens(t *testing.T) {
	golden(t, "token.txt", serve(t, newFake(warmPool())))
}

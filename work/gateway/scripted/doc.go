package scripted

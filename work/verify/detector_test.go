//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package verify

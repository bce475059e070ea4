// Frequencies of the guest's two CPUs: acpi-cpufreq takes _PSS, amd-pstate (from Linux 6.3) _CPC.
// What they write goes to an idle port, to memory that boot.py reserves, and, for the energy
// preference, to the last of the memory ranges (MSR 0x20E), which the guest does not use.
DefinitionBlock ("", "SSDT", 2, "SCHEDL", "CPUFREQ", 1)
{
    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)
    Method (\_SB._OSC, 4) { Return (Arg3) }
    Name (PCTP, Package () {
        ResourceTemplate () { Register (SystemIO, 16, 0, 0x5B0) },
        ResourceTemplate () { Register (SystemIO, 16, 0, 0x5B0) }
    })
    Name (PSSP, Package () {
        Package () { 3000, 3000, 10, 10, 3, 3 },
        Package () { 1000, 1000, 10, 10, 1, 1 }
    })
    Name (CPCP, Package () {
        23, 3, 200, 150, 75, 50,  // highest, nominal, lowest nonlinear and lowest performance
        ResourceTemplate () { Register (SystemMemory, 0, 0, 0) },
        ResourceTemplate () { Register (SystemMemory, 32, 0, 0x70000000, 3) },  // desired
        ResourceTemplate () { Register (SystemMemory, 32, 0, 0x70000004, 3) },  // least
        ResourceTemplate () { Register (SystemMemory, 32, 0, 0x70000008, 3) },  // most
        ResourceTemplate () { Register (SystemMemory, 0, 0, 0) },
        ResourceTemplate () { Register (SystemMemory, 0, 0, 0) },
        ResourceTemplate () { Register (SystemMemory, 0, 0, 0) },
        ResourceTemplate () { Register (SystemMemory, 64, 0, 0x70000010, 4) },  // counters
        ResourceTemplate () { Register (SystemMemory, 64, 0, 0x70000018, 4) },
        ResourceTemplate () { Register (SystemMemory, 32, 0, 0x70000020, 3) },
        ResourceTemplate () { Register (SystemMemory, 32, 0, 0x70000024, 3) },  // on
        ResourceTemplate () { Register (SystemMemory, 32, 0, 0x70000028, 3) },  // autonomous
        ResourceTemplate () { Register (SystemMemory, 0, 0, 0) },
        ResourceTemplate () { Register (FFixedHW, 8, 12, 0x20E, 4) },  // energy preference
        150, 1000, 3000
    })
    Scope (\_SB.CPUS.C000) {
        Method (_PCT) { Return (PCTP) }
        Method (_PSS) { Return (PSSP) }
        Method (_PPC) { Return (0) }
        Method (_CPC) { Return (CPCP) }
    }
    Scope (\_SB.CPUS.C001) {
        Method (_PCT) { Return (PCTP) }
        Method (_PSS) { Return (PSSP) }
        Method (_PPC) { Return (0) }
        Method (_CPC) { Return (CPCP) }
    }
}

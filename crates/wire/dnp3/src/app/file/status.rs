//! What became of a file command or a block (IEEE 1815 annex A, group 70 variations 4 and 6).

use crate::codes::codes;

codes! {
    /// What became of a file command or a block.
    FileStatus u8 {
        0 Success "success" "done";
        1 PermissionDenied "permission_denied" "the master may not do this with the file";
        2 InvalidMode "invalid_mode" "the file cannot be opened in this mode";
        3 NotFound "file_not_found" "there is no such file";
        4 Locked "file_locked" "somebody else uses the file";
        5 TooManyOpen "too_many_open" "as many files are open as the outstation allows";
        6 InvalidHandle "invalid_handle" "no file is open under this handle";
        7 WriteBlockSize "write_block_size" "the block is longer than was agreed";
        8 CommLost "communication_lost" "the connection to where the file is was lost";
        9 CannotAbort "cannot_abort" "the transfer cannot be ended";
        16 NotOpened "file_not_open" "the file was not opened";
        17 HandleExpired "handle_expired" "the file was closed because nothing was asked of it for too long";
        18 BufferOverrun "buffer_overrun" "the outstation has no room for the block";
        19 Fatal "fatal_error" "the transfer failed and cannot go on";
        20 BlockSequence "block_sequence" "the block is not the one that follows";
        255 Undefined "undefined" "no other status fits";
    }
}

impl FileStatus {
    /// The status of a byte; reserved codes are [`FileStatus::Undefined`].
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match Self::from_code(byte) {
            Some(status) => status,
            None => Self::Undefined,
        }
    }
}

impl core::fmt::Display for FileStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

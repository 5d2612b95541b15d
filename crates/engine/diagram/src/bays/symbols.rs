//! Our own symbols, each 40 × 60 with its ports at (20, 0) and (20, 60). Lines have the colour of what they are in.

/// Identifiers of a switch's symbols end with these words.
pub const POSITIONS: [&str; 4] = ["closed", "open", "moving", "unknown"];

/// `<defs>` of a drawing.
pub const DEFS: &str = r##"<defs>
<symbol id="breaker-closed" overflow="visible"><path d="M20 0V18M20 42V60"/><rect x="8" y="18" width="24" height="24" fill="currentColor"/></symbol>
<symbol id="breaker-open" overflow="visible"><path d="M20 0V18M20 42V60"/><rect x="8" y="18" width="24" height="24" fill="none" stroke-dasharray="none"/></symbol>
<symbol id="breaker-moving" overflow="visible"><path d="M20 0V18M20 42V60"/><rect x="8" y="18" width="24" height="24" fill="none" stroke-dasharray="none"/><path d="M8 42L32 18V42Z" fill="currentColor" stroke-dasharray="none"/></symbol>
<symbol id="breaker-unknown" overflow="visible"><path d="M20 0V18M20 42V60"/><rect x="8" y="18" width="24" height="24" fill="none" stroke-dasharray="2 3"/><text x="20" y="36" text-anchor="middle" font-size="16" font-weight="bold" fill="currentColor" stroke="none">?</text></symbol>
<symbol id="disconnector-closed" overflow="visible"><path d="M20 0V60M12 18H28M12 42H28"/></symbol>
<symbol id="disconnector-open" overflow="visible"><path d="M20 0V18M20 42V60"/><path d="M12 18H28M20 42L4 22" stroke-dasharray="none"/></symbol>
<symbol id="disconnector-moving" overflow="visible"><path d="M20 0V18M20 42V60"/><path d="M12 18H28M20 42L13 21" stroke-dasharray="none"/><circle cx="20" cy="42" r="3" fill="currentColor"/></symbol>
<symbol id="disconnector-unknown" overflow="visible"><path d="M20 0V18M20 42V60"/><path d="M12 18H28M12 42H28" stroke-dasharray="none"/><text x="20" y="36" text-anchor="middle" font-size="16" font-weight="bold" fill="currentColor" stroke="none">?</text></symbol>
<symbol id="switch-closed" overflow="visible"><path d="M20 0V60"/><circle cx="20" cy="18" r="4" fill="currentColor"/><circle cx="20" cy="42" r="4" fill="currentColor"/></symbol>
<symbol id="switch-open" overflow="visible"><path d="M20 0V14M20 46V60"/><path d="M20 38L4 20" stroke-dasharray="none"/><circle cx="20" cy="18" r="4" fill="none"/><circle cx="20" cy="42" r="4" fill="none"/></symbol>
<symbol id="switch-moving" overflow="visible"><path d="M20 0V14M20 46V60"/><path d="M20 38L12 21" stroke-dasharray="none"/><circle cx="20" cy="18" r="4" fill="none"/><circle cx="20" cy="42" r="4" fill="currentColor"/></symbol>
<symbol id="switch-unknown" overflow="visible"><path d="M20 0V14M20 46V60"/><circle cx="20" cy="18" r="4" fill="none"/><circle cx="20" cy="42" r="4" fill="none"/><text x="20" y="36" text-anchor="middle" font-size="16" font-weight="bold" fill="currentColor" stroke="none">?</text></symbol>
<symbol id="earth-switch-closed" overflow="visible"><path d="M20 0V44M12 14H28M8 44H32M13 50H27M18 56H22" stroke-dasharray="none"/></symbol>
<symbol id="earth-switch-open" overflow="visible"><path d="M20 0V10M12 10H28M20 34L6 14M20 34V44M8 44H32M13 50H27M18 56H22" stroke-dasharray="none"/></symbol>
<symbol id="earth-switch-moving" overflow="visible"><path d="M20 0V10M12 10H28M20 34L14 13M20 34V44M8 44H32M13 50H27M18 56H22" stroke-dasharray="none"/><circle cx="20" cy="34" r="3" fill="currentColor"/></symbol>
<symbol id="earth-switch-unknown" overflow="visible"><path d="M20 0V10M12 10H28M20 34V44M8 44H32M13 50H27M18 56H22" stroke-dasharray="none"/><text x="20" y="28" text-anchor="middle" font-size="16" font-weight="bold" fill="currentColor" stroke="none">?</text></symbol>
<symbol id="transformer" overflow="visible"><path d="M20 0V10M20 50V60"/><circle cx="20" cy="23" r="13" fill="none" stroke-dasharray="none"/><circle cx="20" cy="37" r="13" fill="none" stroke-dasharray="none"/></symbol>
<symbol id="ct" overflow="visible"><path d="M20 0V60"/><circle cx="20" cy="30" r="9" fill="none" stroke-dasharray="none"/></symbol>
<symbol id="line" overflow="visible"><path d="M20 0V60M12 46L20 60L28 46"/></symbol>
<symbol id="cable" overflow="visible"><path d="M20 0V60"/><path d="M12 14H28L20 24ZM12 46H28L20 36Z" fill="none" stroke-dasharray="none"/></symbol>
<symbol id="generator" overflow="visible"><path d="M20 0V18"/><circle cx="20" cy="36" r="18" fill="none" stroke-dasharray="none"/><text x="20" y="42" text-anchor="middle" font-size="17" fill="currentColor" stroke="none">G</text></symbol>
<symbol id="motor" overflow="visible"><path d="M20 0V18"/><circle cx="20" cy="36" r="18" fill="none" stroke-dasharray="none"/><text x="20" y="42" text-anchor="middle" font-size="17" fill="currentColor" stroke="none">M</text></symbol>
<symbol id="load" overflow="visible"><path d="M20 0V34"/><path d="M8 34H32L20 54Z" fill="currentColor"/></symbol>
</defs>
"##;

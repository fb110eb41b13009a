//! What ethdev calls about RSS: the hash, and the redirection table.
#![allow(unsafe_code)]

use driver::{Card, Error};
use fpga_regs::HASH_KEY;

use crate::abi::ethdev::{RetaEntries, RssConf};
use crate::dev::{calls, Dev};
use crate::spread::{ENTRIES, KINDS};

/// `RTE_ETH_MQ_RX_RSS_FLAG`.
const BY_HASH: u32 = 1;

/// `dev_configure`: frames are spread evenly by the hash that is asked for, or all go to the first queue.
pub fn configure<C: Card>(dev: &mut Dev<'_, C>) -> Result<(), Error> {
    // SAFETY: ethdev's copy of what the program asked for, which it does not change meanwhile.
    let (mode, queues, conf) = unsafe {
        let data = dev.data;
        ((*data).mq_mode, (*data).nb_rx_queues, &(*data).rss_conf)
    };
    let spread = &mut dev.port.spread;
    if mode & BY_HASH == 0 {
        spread.kinds = 0;
        spread.even(1);
        return Ok(());
    }
    // SAFETY: as above.
    let key = unsafe { key(conf)? };
    spread.even(queues);
    spread.kinds = conf.kinds & KINDS;
    spread.key = key.unwrap_or(spread.key);
    Ok(())
}

/// The key that is asked for, if one is.
///
/// # Safety
/// A key that is there must be as long as it says.
unsafe fn key(conf: &RssConf) -> Result<Option<[u8; HASH_KEY]>, Error> {
    if conf.key.is_null() {
        return Ok(None);
    }
    if usize::from(conf.key_len) != HASH_KEY {
        return Err(Error::Invalid(format!("a key of {} bytes: it has {HASH_KEY}", conf.key_len)));
    }
    // SAFETY: as the caller promises.
    Ok(Some(unsafe { *conf.key.cast() }))
}

calls! {
    /// `rss_hash_update`.
    pub unsafe fn update(dev, conf: *mut RssConf) "the RSS hash" {
        // SAFETY: ethdev calls it with a structure and its key.
        let conf = &*conf;
        if conf.kinds & !KINDS != 0 {
            return Err(Error::Invalid(format!("kinds {:#x}: the card hashes {KINDS:#x}", conf.kinds)));
        }
        let (key, queues) = (key(conf)?, dev.work_queues());
        dev.port.rehash(key, conf.kinds, &queues)
    }

    /// `rss_hash_conf_get`.
    pub unsafe fn get(dev, conf: *mut RssConf) "the RSS hash" {
        // SAFETY: ethdev calls it with a structure, and room for a key if there is one.
        let conf = &mut *conf;
        conf.kinds = dev.port.spread.kinds;
        if !conf.key.is_null() && usize::from(conf.key_len) >= HASH_KEY {
            conf.key.cast::<[u8; HASH_KEY]>().write(dev.port.spread.key);
        }
        conf.key_len = HASH_KEY as u8;
        Ok(())
    }
}

/// Each entry of a list that counts, with its number.
///
/// # Safety
/// `list` must have the entries of a table of `size`.
unsafe fn chosen<'a>(
    list: *mut RetaEntries,
    size: u16,
) -> Result<impl Iterator<Item = (usize, &'a mut u16)>, Error> {
    if usize::from(size) != ENTRIES {
        return Err(Error::Invalid(format!("a redirection table of {size} entries: it has {ENTRIES}")));
    }
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts_mut(list, ENTRIES / 64) };
    let entries = |(n, part): (usize, &'a mut RetaEntries)| {
        let mask = part.mask;
        let counts = move |(k, _): &(usize, &mut u16)| mask >> k & 1 != 0;
        part.queues.iter_mut().enumerate().filter(counts).map(move |(k, queue)| (n * 64 + k, queue))
    };
    Ok(list.iter_mut().enumerate().flat_map(entries))
}

calls! {
    /// `reta_update`.
    pub unsafe fn table_update(dev, list: *mut RetaEntries, size: u16) "the redirection table" {
        // SAFETY: ethdev calls it with as much as the size says.
        let mut entries = dev.port.spread.entries;
        chosen(list, size)?.for_each(|(n, queue)| entries[n] = *queue);
        let queues = dev.work_queues();
        dev.port.redirect(entries, &queues)
    }

    /// `reta_query`.
    pub unsafe fn table_get(dev, list: *mut RetaEntries, size: u16) "the redirection table" {
        // SAFETY: ethdev calls it with as much room as the size says.
        chosen(list, size)?.for_each(|(n, queue)| *queue = dev.port.spread.entries[n]);
        Ok(())
    }
}
